//! The protocols of SQS: JSON (`x-amz-target`) and the older one with parameters and XML.

use std::collections::BTreeMap;

use hothouse_mock::{Answer, Body, Match};
use serde_json::{Map, Value, json};

use super::{
    broker::{Broker, Message, Outgoing},
    form,
};
use crate::{Call, Context, ids};

/// The account that all queues belong to.
const ACCOUNT: &str = "000000000000";

/// The maximum number of entries per batch, and of messages per receive.
const BATCH: usize = 10;

/// The maximum size of a message, in bytes.
const LONGEST: usize = 1 << 20;

/// A request.
#[derive(Clone, Debug)]
pub struct Asked {
    action: String,
    tree: Value,
    region: String,
    host: String,
    is_form: bool,
    id: String,
}

/// An error of a request: its names in both protocols, and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Complaint {
    name: &'static str,
    code: &'static str,
    message: String,
}

type Done = Result<Value, Complaint>;

fn complaint(name: &'static str, code: &'static str, message: impl Into<String>) -> Complaint {
    Complaint { name, code, message: message.into() }
}

fn missing(what: &str) -> Complaint {
    let message = format!("The request must contain the parameter {what}.");
    complaint("MissingParameter", "MissingParameter", message)
}

fn invalid(message: impl Into<String>) -> Complaint {
    complaint("InvalidParameterValue", "InvalidParameterValue", message)
}

/// Parses a request.
pub fn read(call: &Call<'_>, context: &mut Context<'_>) -> Asked {
    let target = call.request.header("x-amz-target");
    let action = target.and_then(|target| target.strip_prefix("AmazonSQS."));
    let (action, mut tree, is_form) = match action {
        Some(action) => (action.to_owned(), call.tree().cloned().unwrap_or(json!({})), false),
        None => {
            let flat = call.tree().and_then(Value::as_object).into_iter().flatten();
            let flat =
                flat.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())));
            let all: Vec<_> = flat.chain(call.query.iter().cloned()).collect();
            let action = all.iter().find(|(name, _)| name == "Action");
            let action = action.map(|(_, value)| value.clone()).unwrap_or_default();
            (action, form::tree(&all), true)
        }
    };
    // Older clients send to the URL of the queue itself.
    if let (Some(map), [_, name]) = (tree.as_object_mut(), &call.segments[..]) {
        map.entry("QueueUrl").or_insert_with(|| json!(format!("https://x/{ACCOUNT}/{name}")));
    }
    let host = call.request.host.to_owned();
    let id = ids::uuid((context.random)());
    Asked { action, tree, region: region(&host), host, is_form, id }
}

fn region(host: &str) -> String {
    let named = host.split('.').find(|part| part.contains('-') && *part != "sqs-fips");
    named.unwrap_or("us-east-1").to_owned()
}

impl Asked {
    /// Returns which queue a receive may wait for, and for how many seconds. `None` for other
    /// requests.
    pub fn waits(&self, broker: &mut Broker, now: i64) -> Option<(String, i64)> {
        let name = (self.action == "ReceiveMessage").then(|| self.queue().ok())??;
        let own = number(&self.tree, "WaitTimeSeconds");
        let wait = own.unwrap_or_else(|| broker.queue(&name, now).wait()).clamp(0, 20);
        Some((name, wait)).filter(|(_, wait)| *wait > 0)
    }

    /// Performs the request, and builds the response. Also returns whether it is final, which a
    /// receive without messages is not.
    pub fn done(&self, broker: &mut Broker, context: &mut Context<'_>) -> (Answer, bool) {
        let now = context.now.as_millisecond();
        let result = self.act(broker, now, &mut || ids::uuid((context.random)()));
        let is_empty = result.as_ref().is_ok_and(|tree| tree.get("Messages").is_none());
        (self.answer(&result), self.action != "ReceiveMessage" || !is_empty)
    }

    fn answer(&self, result: &Done) -> Answer {
        let is_known = !result.as_ref().is_err_and(|why| why.name == "InvalidAction");
        let matched = match is_known {
            true => Match::Vendor("sqs".to_owned()),
            false => Match::Unmatched { nearest: Vec::new(), stub: String::new() },
        };
        let status = if result.is_ok() { 200 } else { 400 };
        let mut answer = Answer::empty(status, matched);
        let (kind, text) = match (self.is_form, result) {
            (true, Ok(tree)) => ("text/xml", form::answer(&self.word(), tree, &self.id)),
            (true, Err(why)) => ("text/xml", form::error(why.code, &why.message, &self.id)),
            (false, Ok(tree)) => ("application/x-amz-json-1.0", tree.to_string()),
            (false, Err(why)) => {
                let told = json!({ "__type": format!("com.amazonaws.sqs#{}", why.name), "message": why.message });
                let query = format!("{};Sender", why.code);
                answer.headers.push(("x-amzn-query-error".into(), query));
                ("application/x-amz-json-1.0", told.to_string())
            }
        };
        answer.headers.push(("content-type".into(), kind.into()));
        answer.headers.push(("x-amzn-requestid".into(), self.id.clone()));
        answer.body = Body::Whole(text.into_bytes());
        answer
    }

    /// Returns the action as a valid name of an XML element.
    fn word(&self) -> String {
        self.action.chars().filter(char::is_ascii_alphanumeric).take(64).collect()
    }

    fn act(&self, broker: &mut Broker, now: i64, ids: &mut dyn FnMut() -> String) -> Done {
        match self.action.as_str() {
            "CreateQueue" => self.create(broker, now),
            "DeleteQueue" => {
                self.queue().map(|name| broker.delete_queue(&name)).map(|()| json!({}))
            }
            "GetQueueUrl" => {
                let name = self.name("QueueName")?;
                broker.queue(&name, now);
                Ok(json!({ "QueueUrl": self.url(&name) }))
            }
            "ListQueues" => Ok(self.list(broker)),
            "GetQueueAttributes" => self.attributes(broker, now),
            "SetQueueAttributes" => self.set_attributes(broker, now),
            "PurgeQueue" => self.queue().map(|name| broker.purge(&name)).map(|()| json!({})),
            "TagQueue" | "UntagQueue" | "ListQueueTags" => self.tags(broker, now),
            "AddPermission" | "RemovePermission" => self.queue().map(|_| json!({})),
            "ListDeadLetterSourceQueues" => {
                let sources = broker.sources(&self.queue()?);
                let urls: Vec<_> = sources.iter().map(|name| self.url(name)).collect();
                Ok(json!({ "queueUrls": urls }))
            }
            "StartMessageMoveTask" => self.redrive(broker, now, ids),
            "ListMessageMoveTasks" => Ok(json!({ "Results": [] })),
            _ => self.message(broker, now, ids),
        }
    }

    fn message(&self, broker: &mut Broker, now: i64, ids: &mut dyn FnMut() -> String) -> Done {
        match self.action.as_str() {
            "SendMessage" => self.send(broker, &self.tree, now, ids()),
            "ReceiveMessage" => self.receive(broker, now),
            "DeleteMessage" => self.delete(broker, &self.tree),
            "ChangeMessageVisibility" => self.hide(broker, &self.tree, now),
            "SendMessageBatch" => self.each(|entry| self.send(broker, entry, now, ids())),
            "DeleteMessageBatch" => self.each(|entry| self.delete(broker, entry)),
            "ChangeMessageVisibilityBatch" => self.each(|entry| self.hide(broker, entry, now)),
            other => {
                let other: String = other.chars().take(80).collect();
                let message = format!("The action {other} is not valid for this endpoint.");
                Err(complaint("InvalidAction", "InvalidAction", message))
            }
        }
    }
}

impl Asked {
    fn url(&self, name: &str) -> String {
        format!("https://{}/{ACCOUNT}/{name}", self.host)
    }

    fn arn(&self, name: &str) -> String {
        format!("arn:aws:sqs:{}:{ACCOUNT}:{name}", self.region)
    }

    /// Returns the queue name in a parameter, validated like AWS does.
    fn name(&self, parameter: &str) -> Result<String, Complaint> {
        let name = self.tree[parameter].as_str().ok_or_else(|| missing(parameter))?;
        named(name).map(str::to_owned)
    }

    fn queue(&self) -> Result<String, Complaint> {
        let url = self.tree["QueueUrl"].as_str().ok_or_else(|| missing("QueueUrl"))?;
        named(url.rsplit('/').next().unwrap_or_default()).map(str::to_owned)
    }

    fn create(&self, broker: &mut Broker, now: i64) -> Done {
        let name = self.name("QueueName")?;
        let (attributes, tags) = (texts(&self.tree["Attributes"]), texts(&self.tree["Tags"]));
        let tags = if tags.is_empty() { texts(&self.tree["tags"]) } else { tags };
        broker.change(&name, now, |queue| {
            queue.attributes.extend(attributes);
            queue.tags.extend(tags);
        });
        Ok(json!({ "QueueUrl": self.url(&name) }))
    }

    fn list(&self, broker: &Broker) -> Value {
        let prefix = self.tree["QueueNamePrefix"].as_str().unwrap_or_default();
        let names = broker.names().filter(|name| name.starts_with(prefix)).take(1000);
        let urls: Vec<_> = names.map(|name| self.url(name)).collect();
        if urls.is_empty() { json!({}) } else { json!({ "QueueUrls": urls }) }
    }

    fn attributes(&self, broker: &mut Broker, now: i64) -> Done {
        let name = self.queue()?;
        let queue = broker.queue(&name, now);
        let (waiting, active, delayed) = queue.counts(now);
        let mut all: BTreeMap<String, String> = [
            ("VisibilityTimeout", "30".to_owned()),
            ("DelaySeconds", "0".to_owned()),
            ("ReceiveMessageWaitTimeSeconds", "0".to_owned()),
            ("MaximumMessageSize", LONGEST.to_string()),
            ("MessageRetentionPeriod", "345600".to_owned()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        all.extend(queue.attributes.clone());
        let seconds = (queue.created / 1000).to_string();
        for (key, value) in [
            ("QueueArn", self.arn(&name)),
            ("ApproximateNumberOfMessages", waiting.to_string()),
            ("ApproximateNumberOfMessagesNotVisible", active.to_string()),
            ("ApproximateNumberOfMessagesDelayed", delayed.to_string()),
            ("CreatedTimestamp", seconds.clone()),
            ("LastModifiedTimestamp", seconds),
        ] {
            all.insert(key.to_owned(), value);
        }
        let wanted = words(&self.tree["AttributeNames"]);
        all.retain(|name, _| wanted.iter().any(|one| one == "All" || one == name));
        Ok(if all.is_empty() { json!({}) } else { json!({ "Attributes": all }) })
    }

    fn set_attributes(&self, broker: &mut Broker, now: i64) -> Done {
        let (name, attributes) = (self.queue()?, texts(&self.tree["Attributes"]));
        broker.change(&name, now, |queue| {
            for (key, value) in attributes {
                // An empty value removes the policy.
                match value.is_empty() {
                    true => queue.attributes.remove(&key),
                    false => queue.attributes.insert(key, value),
                };
            }
        });
        Ok(json!({}))
    }

    fn tags(&self, broker: &mut Broker, now: i64) -> Done {
        let name = self.queue()?;
        let (set, gone) = (texts(&self.tree["Tags"]), words(&self.tree["TagKeys"]));
        if self.action == "ListQueueTags" {
            return Ok(json!({ "Tags": broker.queue(&name, now).tags }));
        }
        broker.change(&name, now, |queue| {
            queue.tags.extend(set);
            queue.tags.retain(|key, _| !gone.contains(key));
        });
        Ok(json!({}))
    }

    fn redrive(&self, broker: &mut Broker, now: i64, ids: &mut dyn FnMut() -> String) -> Done {
        let last = |parameter: &str| {
            let arn = self.tree[parameter].as_str()?;
            named(arn.rsplit(':').next().unwrap_or_default()).ok()
        };
        let from = last("SourceArn").ok_or_else(|| missing("SourceArn"))?;
        broker.redrive(from, last("DestinationArn"), now);
        Ok(json!({ "TaskHandle": ids() }))
    }

    /// Runs `act` for each entry of a batch.
    fn each(&self, mut act: impl FnMut(&Value) -> Done) -> Done {
        let entries = self.tree["Entries"].as_array().map(Vec::as_slice).unwrap_or_default();
        if entries.is_empty() {
            let message = "There should be at least one entry in the request.";
            let code = "AWS.SimpleQueueService.EmptyBatchRequest";
            return Err(complaint("EmptyBatchRequest", code, message));
        }
        if entries.len() > BATCH {
            let message = "Maximum number of entries per request are 10.";
            let code = "AWS.SimpleQueueService.TooManyEntriesInBatchRequest";
            return Err(complaint("TooManyEntriesInBatchRequest", code, message));
        }
        let (mut good, mut bad) = (Vec::new(), Vec::new());
        for entry in entries {
            let id = entry["Id"].as_str().unwrap_or_default();
            match act(entry) {
                Ok(Value::Object(mut told)) => {
                    told.insert("Id".to_owned(), json!(id));
                    good.push(Value::Object(told));
                }
                Ok(_) => {}
                Err(why) => bad.push(json!({
                    "Id": id, "SenderFault": true, "Code": why.code, "Message": why.message,
                })),
            }
        }
        let mut all = Map::new();
        for (name, list) in [("Successful", good), ("Failed", bad)] {
            if !list.is_empty() {
                all.insert(name.to_owned(), Value::Array(list));
            }
        }
        Ok(Value::Object(all))
    }

    fn send(&self, broker: &mut Broker, entry: &Value, now: i64, id: String) -> Done {
        let name = self.queue()?;
        let body = entry["MessageBody"].as_str().filter(|body| !body.is_empty());
        let body = body.ok_or_else(|| missing("MessageBody"))?.to_owned();
        if body.len() > LONGEST {
            return Err(invalid(format!(
                "One or more parameters are invalid. Reason: Message must be shorter than {LONGEST} bytes."
            )));
        }
        let attributes: BTreeMap<String, Value> = entry["MessageAttributes"]
            .as_object()
            .cloned()
            .unwrap_or_default()
            .into_iter()
            .take(BATCH)
            .collect();
        let text = |name: &str| entry[name].as_str().map(str::to_owned);
        let mut told = json!({ "MD5OfMessageBody": md5_of(body.as_bytes()) });
        if !attributes.is_empty() {
            told["MD5OfMessageAttributes"] = json!(md5_of_attributes(&attributes));
        }
        let one = Outgoing {
            id,
            body,
            attributes,
            delay: number(entry, "DelaySeconds"),
            group: text("MessageGroupId"),
            deduplication: text("MessageDeduplicationId"),
        };
        let (id, order) = broker.send(&name, one, now).map_err(invalid)?;
        told["MessageId"] = json!(id);
        if let Some(order) = order {
            told["SequenceNumber"] = json!(format!("{order:020}"));
        }
        Ok(told)
    }

    fn receive(&self, broker: &mut Broker, now: i64) -> Done {
        let name = self.queue()?;
        let most = number(&self.tree, "MaxNumberOfMessages").unwrap_or(1);
        if !(1..=BATCH as i64).contains(&most) {
            return Err(invalid(format!(
                "Value {most} for parameter MaxNumberOfMessages is invalid. Reason: Must be between 1 and 10, if provided."
            )));
        }
        let hidden = number(&self.tree, "VisibilityTimeout");
        let most = usize::try_from(most).unwrap_or(1);
        let taken = broker.receive(&name, (most, hidden), now);
        let messages: Vec<_> =
            taken.iter().map(|(number, message)| self.told(*number, message)).collect();
        Ok(if messages.is_empty() { json!({}) } else { json!({ "Messages": messages }) })
    }

    fn told(&self, number: u64, message: &Message) -> Value {
        let wants = |lists: &[&str], name: &str| {
            let wanted = lists.iter().flat_map(|list| words(&self.tree[*list]));
            wanted.into_iter().any(|one| {
                one == "All"
                    || one == name
                    || one.strip_suffix(".*").is_some_and(|head| name.starts_with(head))
            })
        };
        let mut told = json!({
            "MessageId": message.id,
            "ReceiptHandle": format!("{number}.{}.{}", message.id, message.receives),
            "Body": message.body,
            "MD5OfBody": md5_of(message.body.as_bytes()),
        });
        let mut system = self.system(number, message);
        system.retain(|name, _| wants(&["AttributeNames", "MessageSystemAttributeNames"], name));
        if !system.is_empty() {
            told["Attributes"] = json!(system);
        }
        let mut own = message.attributes.clone();
        own.retain(|name, _| wants(&["MessageAttributeNames"], name));
        if !own.is_empty() {
            told["MD5OfMessageAttributes"] = json!(md5_of_attributes(&own));
            told["MessageAttributes"] = json!(own);
        }
        told
    }

    fn system(&self, number: u64, message: &Message) -> BTreeMap<&'static str, String> {
        let mut all = BTreeMap::from([
            ("ApproximateReceiveCount", message.receives.to_string()),
            ("SentTimestamp", message.sent.to_string()),
            ("SenderId", "AIDAHOTHOUSE".to_owned()),
        ]);
        if let Some(first) = message.first_received {
            all.insert("ApproximateFirstReceiveTimestamp", first.to_string());
        }
        if let Some(group) = &message.group {
            all.insert("MessageGroupId", group.clone());
        }
        if let Some(same) = &message.deduplication {
            all.insert("MessageDeduplicationId", same.clone());
            all.insert("SequenceNumber", format!("{number:020}"));
        }
        if let Some(source) = &message.died_in {
            all.insert("DeadLetterQueueSourceArn", self.arn(source));
        }
        all
    }

    fn delete(&self, broker: &mut Broker, entry: &Value) -> Done {
        broker.delete(&self.queue()?, handle(entry)?);
        Ok(json!({}))
    }

    fn hide(&self, broker: &mut Broker, entry: &Value, now: i64) -> Done {
        let seconds =
            number(entry, "VisibilityTimeout").ok_or_else(|| missing("VisibilityTimeout"))?;
        match broker.hide(&self.queue()?, handle(entry)?, seconds, now) {
            true => Ok(json!({})),
            false => {
                let code = "AWS.SimpleQueueService.MessageNotInflight";
                Err(complaint("MessageNotInflight", code, "The message is not being worked on."))
            }
        }
    }
}

fn named(name: &str) -> Result<&str, Complaint> {
    let plain = name.strip_suffix(".fifo").unwrap_or(name);
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    match (1..=80).contains(&name.len()) && !plain.is_empty() && plain.chars().all(is_name) {
        true => Ok(name),
        false => Err(invalid(
            "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length",
        )),
    }
}

/// Returns the number of the message that a receipt handle belongs to.
fn handle(entry: &Value) -> Result<u64, Complaint> {
    let handle = entry["ReceiptHandle"].as_str().ok_or_else(|| missing("ReceiptHandle"))?;
    let number = handle.split('.').next().and_then(|number| number.parse().ok());
    number.ok_or_else(|| {
        let message = "The input receipt handle is not a valid receipt handle.";
        complaint("ReceiptHandleIsInvalid", "ReceiptHandleIsInvalid", message)
    })
}

fn number(tree: &Value, name: &str) -> Option<i64> {
    let value = &tree[name];
    value.as_i64().or_else(|| value.as_str()?.parse().ok())
}

fn words(tree: &Value) -> Vec<String> {
    let all = tree.as_array().into_iter().flatten();
    all.filter_map(|one| one.as_str().map(str::to_owned)).collect()
}

fn texts(tree: &Value) -> BTreeMap<String, String> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let all = tree.as_object().into_iter().flatten().take(100);
    all.map(|(name, value)| (name.clone(), text(value))).collect()
}

fn md5_of(bytes: &[u8]) -> String {
    format!("{:x}", md5::compute(bytes))
}

/// Hashes attributes like AWS: name, type and value with their lengths.
fn md5_of_attributes(attributes: &BTreeMap<String, Value>) -> String {
    use base64::{Engine, prelude::BASE64_STANDARD};
    let mut bytes = Vec::new();
    let mut add = |part: &[u8], mark: Option<u8>| {
        bytes.extend(mark);
        bytes.extend(u32::try_from(part.len()).unwrap_or(u32::MAX).to_be_bytes());
        bytes.extend_from_slice(part);
    };
    for (name, value) in attributes {
        add(name.as_bytes(), None);
        add(value["DataType"].as_str().unwrap_or_default().as_bytes(), None);
        match value["BinaryValue"].as_str() {
            Some(binary) => add(&BASE64_STANDARD.decode(binary).unwrap_or_default(), Some(2)),
            None => add(value["StringValue"].as_str().unwrap_or_default().as_bytes(), Some(1)),
        }
    }
    md5_of(&bytes)
}
