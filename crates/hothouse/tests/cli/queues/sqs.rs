//! SQS with AWS clients: a worker of the room processes messages, and a failed one is dead until
//! retried.

use std::{fs, path::Path};

use hothouse_testkit::{git, skip, wait_until};

use super::{find, installed, jobs};
use crate::surroundings;

const CONFIG: &str = r#"[project]
name = "jobs"
[egress]
mode = "allowlist"
[integration.queues]
class = "sink"
hosts = ["sqs.eu-west-1.amazonaws.com"]
[service.worker]
run = "exec node worker.mjs"
"#;

/// Fails jobs called `boom` until a file marks them as fixed.
const WORKER: &str = r#"import { DeleteMessageCommand, GetQueueUrlCommand, ReceiveMessageCommand, SQSClient } from '@aws-sdk/client-sqs';
import fs from 'node:fs';
const sqs = new SQSClient({ region: 'eu-west-1', credentials: { accessKeyId: 'AKIDEXAMPLE', secretAccessKey: 'x' } });
const { QueueUrl } = await sqs.send(new GetQueueUrlCommand({ QueueName: 'work' }));
for (;;) {
  const { Messages = [] } = await sqs.send(new ReceiveMessageCommand({ QueueUrl, WaitTimeSeconds: 20, MaxNumberOfMessages: 10, MessageAttributeNames: ['All'] }));
  for (const message of Messages) {
    const job = JSON.parse(message.Body);
    if (job.type === 'boom' && !fs.existsSync('mended')) continue;
    fs.appendFileSync('done', `${job.type} ${message.MessageAttributes?.tenant?.StringValue}\n`);
    await sqs.send(new DeleteMessageCommand({ QueueUrl, ReceiptHandle: message.ReceiptHandle }));
  }
}
"#;

const SENDER: &str = r#"
import json, sys
sys.path.insert(0, 'lib')
import boto3
sqs = boto3.client('sqs', region_name='eu-west-1', aws_access_key_id='AKIDEXAMPLE', aws_secret_access_key='x')
dead = sqs.create_queue(QueueName='work-dead')['QueueUrl']
arn = sqs.get_queue_attributes(QueueUrl=dead, AttributeNames=['QueueArn'])['Attributes']['QueueArn']
policy = json.dumps({'deadLetterTargetArn': arn, 'maxReceiveCount': 2})
url = sqs.create_queue(QueueName='work')['QueueUrl']
sqs.set_queue_attributes(QueueUrl=url, Attributes={'VisibilityTimeout': '1', 'RedrivePolicy': policy})
assert sorted(one.rsplit('/')[-1] for one in sqs.list_queues()['QueueUrls']) == ['work', 'work-dead']
tenant = {'tenant': {'DataType': 'String', 'StringValue': 'acme'}}
sqs.send_message(QueueUrl=url, MessageBody='{"type": "mail"}', MessageAttributes=tenant)
batch = [{'Id': 'a', 'MessageBody': '{"type": "boom"}'}, {'Id': 'b', 'MessageBody': '{"type": "later"}', 'DelaySeconds': 900}]
assert len(sqs.send_message_batch(QueueUrl=url, Entries=batch)['Successful']) == 2
fifo = sqs.create_queue(QueueName='own.fifo', Attributes={'FifoQueue': 'true', 'ContentBasedDeduplication': 'true'})['QueueUrl']
first, again = [sqs.send_message(QueueUrl=fifo, MessageBody='x', MessageGroupId='g') for _ in range(2)]
assert first['MessageId'] == again['MessageId']
got = sqs.receive_message(QueueUrl=fifo, AttributeNames=['All'])['Messages'][0]
assert got['Attributes']['MessageGroupId'] == 'g'
sqs.change_message_visibility(QueueUrl=fifo, ReceiptHandle=got['ReceiptHandle'], VisibilityTimeout=0)
got = sqs.receive_message(QueueUrl=fifo)['Messages'][0]
sqs.delete_message_batch(QueueUrl=fifo, Entries=[{'Id': '1', 'ReceiptHandle': got['ReceiptHandle']}])
assert 'Messages' not in sqs.receive_message(QueueUrl=fifo)
try:
    sqs.receive_message(QueueUrl=fifo, MaxNumberOfMessages=11)
    raise SystemExit('eleven at once')
except sqs.exceptions.ClientError as error:
    assert error.response['Error']['Code'] == 'InvalidParameterValue', error.response
print('sent')
"#;

#[test]
fn messages_of_sqs_are_worked_on_die_and_are_tried_again() {
    let env = surroundings();
    if !env.can_have_rooms("SQS") {
        return;
    }
    let repository = env.repository("jobs", CONFIG);
    fs::write(repository.join(".gitignore"), "node_modules\nlib\ndone\nmended\n").unwrap();
    fs::write(repository.join("worker.mjs"), WORKER).unwrap();
    git(&repository, &["add", "-A"]);
    git(&repository, &["commit", "-qm", "worker"]);
    env.ok(&repository, &["fork", "a"]);
    let worktree = env.root().join("jobs-sandboxes/a");
    let has_all =
        installed(&worktree, "npm", &["install", "--no-save", "--no-audit", "@aws-sdk/client-sqs"])
            && installed(
                &worktree,
                "/usr/bin/python3",
                &["-m", "pip", "install", "-q", "--target", "lib", "boto3"],
            );
    if !has_all {
        return skip("clients of SQS", "npm and pip with their registries");
    }
    fs::write(worktree.join("send.py"), SENDER).unwrap();
    env.ok(&repository, &["up", "-w", "a"]);
    let sent = env.run(&repository, &["exec", "-w", "a", "--", "python3", "send.py"]);
    assert_eq!((sent.code, sent.stdout.trim()), (0, "sent"), "{sent}");
    let done = || fs::read_to_string(worktree.join("done")).unwrap_or_default();
    wait_until("the worker does the first", || done().contains("mail acme"));
    let dead =
        ["wait", "job", "queue=work name=boom state=dead", "-w", "a", "--timeout", "60s", "--json"];
    assert_eq!(env.json(&repository, &dead)["body"]["attempts"], 2);
    let listed = jobs(&env, &repository);
    assert!(find(&listed, "work", "delayed").is_some(), "{listed:?}");
    // Nothing is lost with the daemon.
    env.kill_daemon();
    env.ok(&repository, &["daemon", "start"]);
    env.ok(&repository, &["queue", "drain", "-w", "a"]);
    assert!(done().contains("later"), "{}", done());
    fs::write(worktree.join("mended"), "").unwrap();
    let dead = find(&jobs(&env, &repository), "work", "dead").unwrap();
    let again = ["queue", "retry", dead["id"].as_str().unwrap(), "-w", "a", "--json"];
    assert_eq!(env.json(&repository, &again)["state"], "waiting");
    env.json(&repository, &["wait", "job", "name=boom state=completed", "-w", "a", "--json"]);
    assert!(jobs(&env, &repository).is_empty(), "nothing is left");
    let status = env.json(&repository, &["status", "-w", "a", "--json"]);
    let artifacts = Path::new(status["run"]["artifacts"].as_str().unwrap());
    let letters = fs::read_to_string(artifacts.join("dead-letters.jsonl")).unwrap();
    assert!(letters.contains("boom"), "{letters}");
}
