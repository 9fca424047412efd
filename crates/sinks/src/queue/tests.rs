use serde_json::{Value, json};

use super::{broker::Broker, sqs};
use crate::{
    Call, Context, FlagSet, no_mails,
    queue::broker::{Change, Outgoing},
};

const HOST: &str = "sqs.eu-west-1.amazonaws.com";

/// A broker with requests as clients send them.
#[derive(Default)]
struct Asked {
    broker: Broker,
    now: i64,
    random: u8,
}

impl Asked {
    fn ask(&mut self, headers: &[(&str, &str)], path: &str, body: &str) -> (u16, String) {
        let headers: Vec<_> = headers
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec()))
            .collect();
        let call = Call::read(hothouse_mock::Request {
            method: "POST",
            host: HOST,
            path,
            query: "",
            headers: &headers,
            body: body.as_bytes(),
        });
        let flags = FlagSet::new();
        let mut random = || {
            self.random += 1;
            [self.random; 16]
        };
        let now = jiff::Timestamp::from_millisecond(self.now).unwrap();
        let mut context = Context { now, random: &mut random, flags: &flags, mails: &no_mails };
        let asked = sqs::read(&call, &mut context);
        let answer = asked.done(&mut self.broker, &mut context).0;
        (answer.status, String::from_utf8(answer.body.bytes()).unwrap())
    }

    fn json(&mut self, action: &str, tree: Value) -> Value {
        let target = format!("AmazonSQS.{action}");
        let headers = [("x-amz-target", &*target), ("content-type", "application/x-amz-json-1.0")];
        let (_, text) = self.ask(&headers, "/", &tree.to_string());
        serde_json::from_str(&text).unwrap()
    }

    fn form(&mut self, path: &str, body: &str) -> (u16, String) {
        self.ask(&[("content-type", "application/x-www-form-urlencoded")], path, body)
    }

    fn states(&mut self) -> Vec<(String, String)> {
        self.broker
            .jobs(self.now)
            .into_iter()
            .map(|job| (job.queue, job.state.to_string()))
            .collect()
    }
}

const WORK: &str = "https://sqs.eu-west-1.amazonaws.com/000000000000/work";

#[test]
fn a_message_is_received_hidden_deleted_or_dead() {
    let mut asked = Asked::default();
    let policy = json!({ "deadLetterTargetArn": "arn:aws:sqs:eu-west-1:000000000000:dead", "maxReceiveCount": "2" });
    let attributes = json!({ "RedrivePolicy": policy.to_string(), "VisibilityTimeout": "10" });
    let made = asked.json("CreateQueue", json!({ "QueueName": "work", "Attributes": attributes }));
    assert_eq!(made["QueueUrl"], WORK);
    let sent = asked
        .json("SendMessage", json!({ "QueueUrl": WORK, "MessageBody": "{\"type\":\"mail\"}" }));
    assert_eq!(sent["MD5OfMessageBody"], format!("{:x}", md5::compute("{\"type\":\"mail\"}")));
    let receive = json!({ "QueueUrl": WORK, "AttributeNames": ["All"] });
    let got = asked.json("ReceiveMessage", receive.clone());
    assert_eq!(got["Messages"][0]["Attributes"]["ApproximateReceiveCount"], "1");
    assert_eq!(asked.states(), [("work".into(), "active".into())]);
    assert_eq!(asked.json("ReceiveMessage", receive.clone()), json!({}), "it is hidden");
    asked.now += 11_000;
    assert!(asked.json("ReceiveMessage", receive.clone())["Messages"][0]["Body"].is_string());
    asked.now += 11_000;
    assert_eq!(asked.json("ReceiveMessage", receive.clone()), json!({}));
    assert_eq!(asked.states(), [("work".into(), "dead".into())]);
    let id = sent["MessageId"].as_str().unwrap();
    assert!(asked.broker.retry(id, asked.now) && !asked.broker.retry(id, asked.now));
    let got = asked.json("ReceiveMessage", receive);
    let handle = &got["Messages"][0]["ReceiptHandle"];
    asked.json("DeleteMessage", json!({ "QueueUrl": WORK, "ReceiptHandle": handle }));
    assert_eq!(asked.states(), []);
    let (_, records) = asked.broker.take_changes();
    let states: Vec<_> = records.iter().map(|one| one.body["state"].clone()).collect();
    let expected = ["waiting", "active", "active", "dead", "waiting", "active", "completed"];
    assert_eq!(states, expected.map(Value::from));
}

#[test]
fn fifo_queues_keep_the_order_of_groups_and_drop_what_comes_twice() {
    let mut asked = Asked::default();
    let url = WORK.replace("work", "work.fifo");
    for (body, group, same) in [("1", "a", "x"), ("1", "a", "x"), ("2", "a", "y"), ("3", "b", "z")]
    {
        asked.json(
            "SendMessage",
            json!({ "QueueUrl": url, "MessageBody": body, "MessageGroupId": group, "MessageDeduplicationId": same }),
        );
    }
    let refused = asked.json("SendMessage", json!({ "QueueUrl": url, "MessageBody": "4" }));
    assert!(refused["message"].as_str().unwrap().contains("MessageGroupId"), "{refused}");
    let receive = json!({ "QueueUrl": url, "MaxNumberOfMessages": 1 });
    let got =
        |asked: &mut Asked| asked.json("ReceiveMessage", receive.clone())["Messages"][0].clone();
    let first = got(&mut asked);
    assert_eq!((&first["Body"], &got(&mut asked)["Body"]), (&json!("1"), &json!("3")));
    assert_eq!(got(&mut asked), Value::Null, "the group is busy");
    asked
        .json("DeleteMessage", json!({ "QueueUrl": url, "ReceiptHandle": first["ReceiptHandle"] }));
    assert_eq!(got(&mut asked)["Body"], "2");
}

#[test]
fn older_clients_are_answered_in_xml() {
    let mut asked = Asked::default();
    let path = "/000000000000/work";
    let batch = "Action=SendMessageBatch&SendMessageBatchRequestEntry.1.Id=a&SendMessageBatchRequestEntry.1.MessageBody=%3Cx%3E\
        &SendMessageBatchRequestEntry.1.MessageAttribute.1.Name=k&SendMessageBatchRequestEntry.1.MessageAttribute.1.Value.DataType=String\
        &SendMessageBatchRequestEntry.1.MessageAttribute.1.Value.StringValue=v&SendMessageBatchRequestEntry.2.Id=b";
    let (status, sent) = asked.form(path, batch);
    assert!(status == 200 && sent.contains("<SendMessageBatchResultEntry>"), "{sent}");
    assert!(sent.contains("<BatchResultErrorEntry>") && sent.contains("<Id>b</Id>"), "{sent}");
    let (_, got) =
        asked.form(path, "Action=ReceiveMessage&MessageAttributeName.1=All&AttributeName.1=All");
    for told in [
        "<Body>&lt;x&gt;</Body>",
        "<Name>k</Name><Value><DataType>String</DataType><StringValue>v</StringValue></Value>",
        "<Name>SentTimestamp</Name>",
    ] {
        assert!(got.contains(told), "{told} in {got}");
    }
    let (status, wrong) = asked.form("/", "Action=Nonsense");
    assert!(status == 400 && wrong.contains("<Code>InvalidAction</Code>"), "{wrong}");
    let (_, listed) = asked.form("/", "Action=ListQueues");
    assert!(listed.contains(&format!("<QueueUrl>{WORK}</QueueUrl>")), "{listed}");
}

#[test]
fn what_is_kept_is_what_was_there() {
    let mut broker = Broker::default();
    for body in ["one", "two"] {
        let one =
            Outgoing { id: body.into(), body: body.into(), delay: Some(5), ..Outgoing::default() };
        broker.send("work", one, 0).unwrap();
    }
    broker.delete("work", 1);
    let mut kept = std::collections::BTreeMap::new();
    for (key, value) in broker.take_changes().0 as Vec<Change> {
        match value {
            Some(value) => kept.insert(key, value),
            None => kept.remove(&key),
        };
    }
    let mut again = Broker::load(kept);
    assert_eq!(again.jobs(0), broker.jobs(0));
    assert_eq!(again.jobs(0)[0].state.as_str(), "delayed");
    again.promote(1);
    assert_eq!(again.receive("work", (10, None), 1).len(), 1);
}

#[test]
fn hosts_of_sqs_are_known() {
    for host in
        ["sqs.us-east-1.amazonaws.com", "eu-west-1.queue.amazonaws.com", "queue.amazonaws.com"]
    {
        assert!(super::knows(host), "{host}");
    }
    for host in [
        "s3.us-east-1.amazonaws.com",
        "sqs.us-east-1.amazonaws.com.evil.example",
        "sqs.a.b.amazonaws.com",
    ] {
        assert!(!super::knows(host), "{host}");
    }
}
