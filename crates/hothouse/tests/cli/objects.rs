//! Objects: the SDKs of AWS, unmodified, in a room, with the production hosts of S3 and with a port of the room.

use std::{fs, path::Path, process::Command};

use hothouse_testkit::{TestEnv, skip};
use serde_json::Value;

use crate::surroundings;

const CONFIG: &str = r#"[project]
name = "acme"
[egress]
mode = "allowlist"
[service.store]
recipe = "objects"
[integration.s3]
class = "sink"
hosts = ["goods.s3.us-east-1.amazonaws.com", "s3.us-east-1.amazonaws.com", "goods.s3.amazonaws.com"]
"#;

/// What both ways in are used for: production hosts without a setting, and the port by `endpoint`.
const SHOP: &str = r#"
import assert from 'node:assert/strict';
import { S3Client, PutObjectCommand, GetObjectCommand, HeadObjectCommand, ListObjectsV2Command, CopyObjectCommand,
  DeleteObjectsCommand, CreateMultipartUploadCommand, UploadPartCommand, CompleteMultipartUploadCommand, HeadBucketCommand,
  CreateBucketCommand } from '@aws-sdk/client-s3';
import { getSignedUrl } from '@aws-sdk/s3-request-presigner';

const credentials = { accessKeyId: 'acme', secretAccessKey: 'acme' };
const clients = [
  [new S3Client({ region: 'us-east-1', credentials }), 'goods'],
  [new S3Client({ region: 'us-east-1', credentials, endpoint: 'http://127.0.0.1:9000', forcePathStyle: true }), 'local-goods'],
];
for (const [s3, Bucket] of clients) {
  const missing = await s3.send(new HeadBucketCommand({ Bucket })).then(() => false, (error) => error.name === 'NotFound');
  // A bucket that a host of production names is there.
  assert.equal(missing, Bucket === 'local-goods');
  if (missing) await s3.send(new CreateBucketCommand({ Bucket }));
  const Body = Buffer.from('%PDF invoice é');
  await s3.send(new PutObjectCommand({ Bucket, Key: 'invoices/1 ü.pdf', Body, ContentType: 'application/pdf', Metadata: { order: '1' } }));
  const got = await s3.send(new GetObjectCommand({ Bucket, Key: 'invoices/1 ü.pdf' }));
  assert.deepEqual(Buffer.from(await got.Body.transformToByteArray()), Body);
  assert.equal(got.ContentType, 'application/pdf');
  assert.equal(got.Metadata.order, '1');
  const part = await s3.send(new GetObjectCommand({ Bucket, Key: 'invoices/1 ü.pdf', Range: 'bytes=1-3' }));
  assert.equal(await part.Body.transformToString(), 'PDF');
  await s3.send(new CopyObjectCommand({ Bucket, Key: 'invoices/2.pdf', CopySource: `${Bucket}/invoices/1%20%C3%BC.pdf` }));
  await s3.send(new PutObjectCommand({ Bucket, Key: 'a', Body: 'a' }));
  const listed = await s3.send(new ListObjectsV2Command({ Bucket, Prefix: '', Delimiter: '/' }));
  assert.deepEqual([listed.Contents.map((one) => one.Key), listed.CommonPrefixes.map((one) => one.Prefix)], [['a'], ['invoices/']]);
  const { UploadId } = await s3.send(new CreateMultipartUploadCommand({ Bucket, Key: 'film' }));
  const Parts = [];
  for (const [PartNumber, size] of [[1, 5 << 20], [2, 7]]) {
    const { ETag } = await s3.send(new UploadPartCommand({ Bucket, Key: 'film', UploadId, PartNumber, Body: Buffer.alloc(size, PartNumber) }));
    Parts.push({ PartNumber, ETag });
  }
  await s3.send(new CompleteMultipartUploadCommand({ Bucket, Key: 'film', UploadId, MultipartUpload: { Parts } }));
  assert.equal((await s3.send(new HeadObjectCommand({ Bucket, Key: 'film' }))).ContentLength, (5 << 20) + 7);
  const url = await getSignedUrl(s3, new PutObjectCommand({ Bucket, Key: 'signed' }), { expiresIn: 60 });
  assert.equal((await fetch(url, { method: 'PUT', body: 'by hand' })).status, 200);
  assert.equal((await fetch(url.split('?')[0], { method: 'PUT', body: 'unsigned' })).status, 403);
  const read = await getSignedUrl(s3, new GetObjectCommand({ Bucket, Key: 'signed' }), { expiresIn: 60 });
  assert.equal(await (await fetch(read)).text(), 'by hand');
  const gone = await s3.send(new DeleteObjectsCommand({ Bucket, Delete: { Objects: [{ Key: 'a' }, { Key: 'film' }] } }));
  assert.equal(gone.Deleted.length, 2);
  await assert.rejects(s3.send(new GetObjectCommand({ Bucket, Key: 'a' })), (error) => error.name === 'NoSuchKey');
}
console.log('done');
"#;

const PYTHON: &str = r#"
import io, os, sys
sys.path.insert(0, "py")
import boto3
s3 = boto3.client("s3", region_name="us-east-1", aws_access_key_id="acme", aws_secret_access_key="acme")
s3.put_object(Bucket="goods", Key="from python", Body=b"hello")
assert s3.get_object(Bucket="goods", Key="from python")["Body"].read() == b"hello"
s3.upload_fileobj(io.BytesIO(b"z" * (9 << 20)), "goods", "large")
assert s3.head_object(Bucket="goods", Key="large")["ContentLength"] == 9 << 20
assert [one["Key"] for one in s3.list_objects_v2(Bucket="goods", Prefix="lar")["Contents"]] == ["large"]
post = s3.generate_presigned_post("goods", "posted", Conditions=[["content-length-range", 1, 100]], ExpiresIn=60)
assert post["fields"]["policy"]
s3.delete_object(Bucket="goods", Key="large")
try:
    s3.get_object(Bucket="goods", Key="large")
    raise SystemExit("a deleted object is there")
except s3.exceptions.NoSuchKey:
    pass
print("done")
"#;

fn installed(folder: &Path, program: &str, words: &[&str]) -> bool {
    let output = Command::new(program).args(words).current_dir(folder).output();
    output.is_ok_and(|output| output.status.success())
}

fn keys(listed: &Value, bucket: &str) -> Vec<String> {
    let of = listed.as_array().unwrap().iter().filter(|one| one["bucket"] == bucket);
    let mut keys: Vec<_> = of.map(|one| one["key"].as_str().unwrap().to_owned()).collect();
    keys.sort();
    keys
}

#[test]
fn sdks_of_aws_store_objects_which_snapshots_carry() {
    let env: TestEnv = surroundings();
    if !env.can_have_rooms("SDKs of object stores") {
        return;
    }
    let repository = env.repository("acme", CONFIG);
    env.ok(&repository, &["fork", "a"]);
    let worktree = env.root().join("acme-sandboxes/a");
    fs::write(worktree.join("package.json"), "{}").unwrap();
    let words = [
        "install",
        "--no-audit",
        "--no-fund",
        "@aws-sdk/client-s3",
        "@aws-sdk/s3-request-presigner",
    ];
    if !installed(&worktree, "npm", &words) {
        skip("the AWS SDK for JavaScript", "npm and a registry");
        return;
    }
    fs::write(worktree.join("shop.mjs"), SHOP).unwrap();
    env.ok(&repository, &["up", "-w", "a"]);
    let ran = env.run(&repository, &["exec", "-w", "a", "--", "node", "shop.mjs"]);
    assert_eq!((ran.code, ran.stdout.trim()), (0, "done"), "{ran}");

    let listed = env.json(&repository, &["objects", "-w", "a", "--json"]);
    let expected = ["invoices/1 ü.pdf", "invoices/2.pdf", "signed"];
    assert_eq!(keys(&listed, "goods"), expected, "{listed:#}");
    assert_eq!(keys(&listed, "local-goods"), expected, "{listed:#}");
    let status = env.json(&repository, &["status", "-w", "a", "--json"]);
    let artifacts = Path::new(status["run"]["artifacts"].as_str().unwrap());
    for one in listed.as_array().unwrap() {
        let file = artifacts.join(one["file"].as_str().unwrap());
        assert_eq!(fs::metadata(file).unwrap().len(), one["size"].as_u64().unwrap(), "{one:#}");
    }
    let waited = ["wait", "object", "key:invoices operation=put", "-w", "a", "--since", "1"];
    env.ok(&repository, &waited);
    let deleted =
        env.json(&repository, &["objects", "operation=delete", "--all", "-w", "a", "--json"]);
    assert_eq!(deleted.as_array().unwrap().len(), 4, "{deleted:#}");

    let words = ["-m", "pip", "install", "-q", "--no-compile", "--target", "py", "boto3"];
    if installed(&worktree, "python3", &words) {
        fs::write(worktree.join("shop.py"), PYTHON).unwrap();
        let ran = env.run(&repository, &["exec", "-w", "a", "--", "python3", "shop.py"]);
        assert_eq!((ran.code, ran.stdout.trim()), (0, "done"), "{ran}");
    } else {
        skip("boto3", "pip and a registry");
    }

    // Objects belong to a sandbox as its rows do: a snapshot has them, a restore brings them back, and a fork
    // has its own.
    let get = |sandbox: &str| {
        let get = "curl -s http://127.0.0.1:9000/local-goods/signed";
        env.ok(&repository, &["exec", "-w", sandbox, "--", "sh", "-c", get])
    };
    assert_eq!(get("a"), "by hand");
    env.ok(&repository, &["snapshot", "before", "-w", "a"]);
    env.ok(&repository, &["fork", "b", "--from", "a"]);
    env.ok(&repository, &["up", "-w", "b"]);
    let remove =
        "curl -sf -X DELETE -H 'Authorization: AWS x:y' http://127.0.0.1:9000/local-goods/signed";
    env.ok(&repository, &["exec", "-w", "a", "--", "sh", "-c", remove]);
    assert!(get("a").contains("NoSuchKey"), "{}", get("a"));
    assert_eq!(get("b"), "by hand");
    env.ok(&repository, &["restore", "before", "-w", "a"]);
    assert_eq!(get("a"), "by hand");
}
