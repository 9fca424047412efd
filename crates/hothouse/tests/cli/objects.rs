//! Object storage: unmodified AWS SDKs in a room, with production hosts of S3 and with a port of
//! the room.

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

/// Both ways: production hosts without settings, and the port through `endpoint`.
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
  // A bucket named by a production host exists.
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

    // Objects belong to a sandbox like its rows: a snapshot contains them, a restore brings them
    // back, and a fork has its own.
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

const WATCHED: &str = r#"[project]
name = "acme"
[egress]
mode = "allowlist"
[service.store]
recipe = "objects"
[service.hook]
run = "exec python3 hook.py"
port = 3000
ready = { tcp = true }
url = "hook"
[integration.s3]
class = "sink"
hosts = ["goods.s3.amazonaws.com", "s3.us-east-1.amazonaws.com"]
webhook = { to = "hook", path = "/s3" }
[integration.gcs]
class = "sink"
hosts = ["storage.googleapis.com"]
"#;

/// Records the changes that it is notified of.
const HOOK: &str = r#"
import http.server, json
class Hook(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        event = json.loads(self.rfile.read(int(self.headers["content-length"])))["Records"][0]
        with open("told.txt", "a") as file:
            file.write(f"{event['eventName']} {event['s3']['object']['key']}\n")
        self.send_response(200); self.send_header("content-length", "0"); self.end_headers()
    def log_message(self, *words): pass
http.server.ThreadingHTTPServer(("127.0.0.1", 3000), Hook).serve_forever()
"#;

const VERSIONS: &str = r#"
import json, sys, urllib.request
sys.path.insert(0, "py")
import boto3
from botocore.client import Config
from botocore.exceptions import ClientError
own = dict(region_name="us-east-1", aws_access_key_id="acme", aws_secret_access_key="acme")
s3 = boto3.client("s3", **own)
rule = {"QueueConfigurations": [{"QueueArn": "arn:aws:sqs:us-east-1:1:q", "Events": ["s3:ObjectCreated:*"], "Filter": {"Key": {"FilterRules": [{"Name": "suffix", "Value": ".png"}]}}}]}
s3.put_bucket_notification_configuration(Bucket="goods", NotificationConfiguration=rule)
assert s3.get_bucket_notification_configuration(Bucket="goods")["QueueConfigurations"]
assert "Status" not in s3.get_bucket_versioning(Bucket="goods")
s3.put_object(Bucket="goods", Key="a", Body=b"before")
s3.put_bucket_versioning(Bucket="goods", VersioningConfiguration={"Status": "Enabled"})
assert s3.get_bucket_versioning(Bucket="goods")["Status"] == "Enabled"
one = s3.put_object(Bucket="goods", Key="a", Body=b"one")["VersionId"]
two = s3.put_object(Bucket="goods", Key="a", Body=b"two", ChecksumAlgorithm="CRC32")["VersionId"]
body = lambda **more: s3.get_object(Bucket="goods", Key="a", **more)["Body"].read()
assert (body(), body(VersionId=one), body(VersionId="null")) == (b"two", b"one", b"before")
marker = s3.delete_object(Bucket="goods", Key="a")
assert marker["DeleteMarker"] is True
try: body(); raise SystemExit("a hidden object is there")
except s3.exceptions.NoSuchKey: pass
all = s3.list_object_versions(Bucket="goods", Prefix="a")
assert [v["VersionId"] for v in all["Versions"]] == [two, one, "null"], all
assert all["DeleteMarkers"][0]["IsLatest"] is True, all
pages = s3.get_paginator("list_object_versions").paginate(Bucket="goods", PaginationConfig={"PageSize": 2})
assert sum(len(page.get("Versions", [])) + len(page.get("DeleteMarkers", [])) for page in pages) == 4
s3.delete_objects(Bucket="goods", Delete={"Objects": [{"Key": "a", "VersionId": marker["VersionId"]}]})
assert body() == b"two"
# Tags come with the object or later, and follow it when it is copied.
tags = lambda key: {one["Key"]: one["Value"] for one in s3.get_object_tagging(Bucket="goods", Key=key)["TagSet"]}
s3.put_object(Bucket="goods", Key="tagged", Body=b"x", Tagging="stage=draft&who=a%20b", ChecksumAlgorithm="SHA256")
assert tags("tagged") == {"stage": "draft", "who": "a b"} and s3.get_object(Bucket="goods", Key="tagged")["TagCount"] == 2
s3.put_object_tagging(Bucket="goods", Key="tagged", Tagging={"TagSet": [{"Key": "stage", "Value": "final"}]})
s3.copy_object(Bucket="goods", Key="copied", CopySource="goods/tagged")
assert tags("copied") == {"stage": "final"}
s3.delete_object_tagging(Bucket="goods", Key="tagged")
assert tags("tagged") == {}
known = s3.get_object_attributes(Bucket="goods", Key="tagged", ObjectAttributes=["ETag", "Checksum", "ObjectSize", "StorageClass"])
assert (known["ObjectSize"], known["StorageClass"], len(known["Checksum"]["ChecksumSHA256"])) == (1, "STANDARD", 44), known
paths = boto3.client("s3", endpoint_url="https://s3.us-east-1.amazonaws.com", config=Config(s3={"addressing_style": "path"}), **own)
for call, expected in [(lambda: paths.get_bucket_location(Bucket="no-such-bucket"), "NoSuchBucket"), (lambda: s3.get_bucket_policy_status(Bucket="goods"), "NotImplemented")]:
    try: call(); raise SystemExit(expected)
    except ClientError as error: assert error.response["Error"]["Code"] == expected, error
# A URL that is signed as it was before 2014, a form with a policy, and a range.
old = boto3.client("s3", config=Config(signature_version="s3"), **own)
url = old.generate_presigned_url("put_object", Params={"Bucket": "goods", "Key": "old"}, ExpiresIn=60)
assert "AWSAccessKeyId=" in url, url
assert urllib.request.urlopen(urllib.request.Request(url, data=b"0123456789", method="PUT"), timeout=20).status == 200
assert s3.get_object(Bucket="goods", Key="old", Range="bytes=-3")["Body"].read() == b"789"
post = s3.generate_presigned_post("goods", "posted.png", Conditions=[["content-length-range", 1, 100]], ExpiresIn=60)
def send(bytes):
    mark, lines = b"XbX", []
    for name, value in post["fields"].items():
        lines.append(b"--" + mark + b'\r\nContent-Disposition: form-data; name="' + name.encode() + b'"\r\n\r\n' + value.encode() + b"\r\n")
    lines.append(b"--" + mark + b'\r\nContent-Disposition: form-data; name="file"; filename="f"\r\nContent-Type: image/png\r\n\r\n' + bytes + b"\r\n--" + mark + b"--\r\n")
    request = urllib.request.Request(post["url"], data=b"".join(lines), headers={"Content-Type": "multipart/form-data; boundary=XbX"})
    try: return urllib.request.urlopen(request, timeout=20).status
    except urllib.error.HTTPError as error: return error.code
png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x02\x80\0\0\x01\xe0\x08\x02"
assert send(png) == 204 and send(b"x" * 200) == 400
try: s3.put_object(Bucket="goods", Key="b", Body=b"x", ChecksumCRC32C="AAAAAA=="); raise SystemExit("a wrong checksum was taken")
except ClientError as error: assert error.response["Error"]["Code"] == "BadDigest", error
print("done")
"#;

const GCS_PYTHON: &str = r#"
import os, sys
os.environ["STORAGE_EMULATOR_HOST"] = "http://127.0.0.1:9000"
sys.path.insert(0, "py")
from google.auth.credentials import AnonymousCredentials
from google.cloud import storage
from google.api_core.exceptions import NotFound
client = storage.Client(project="p", credentials=AnonymousCredentials())
bucket = client.create_bucket("gcs-goods")
blob = bucket.blob("a/ü.txt")
blob.metadata = {"order": "1"}
blob.upload_from_string("hello", content_type="text/plain")
assert blob.download_as_bytes() == b"hello"
again = bucket.get_blob("a/ü.txt")
assert again.size == 5 and again.content_type == "text/plain" and again.metadata == {"order": "1"}, again
large = bucket.blob("large", chunk_size=262144)
large.upload_from_string(b"z" * 1000000)
assert bucket.blob("large").download_as_bytes(start=999998) == b"zz"
assert [one.name for one in client.list_blobs("gcs-goods", prefix="a/")] == ["a/ü.txt"]
assert bucket.copy_blob(again, bucket, "copy").size == 5
bucket.blob("copy").delete()
assert bucket.get_blob("copy") is None
try: bucket.blob("none").delete(); raise SystemExit("what is not there was deleted")
except NotFound: pass
print("done")
"#;

const GCS_NODE: &str = r#"
import assert from 'node:assert/strict';
import { Storage } from '@google-cloud/storage';
const storage = new Storage({ apiEndpoint: 'http://127.0.0.1:9000', projectId: 'p' });
const bucket = storage.bucket('node-goods');
await bucket.create();
await bucket.file('simple').save('hello', { resumable: false, contentType: 'text/plain' });
await bucket.file('resumable').save(Buffer.alloc(600000, 'z'), { resumable: true });
assert.equal((await bucket.file('simple').download())[0].toString(), 'hello');
assert.equal((await bucket.file('resumable').download())[0].length, 600000);
assert.equal((await bucket.file('simple').getMetadata())[0].contentType, 'text/plain');
const [files] = await bucket.getFiles({ prefix: 's' });
assert.deepEqual(files.map((file) => file.name), ['simple']);
await bucket.file('simple').copy(bucket.file('copied'));
await bucket.file('copied').delete();
assert.equal((await bucket.file('copied').exists())[0], false);
console.log('done');
"#;

#[test]
fn versions_forms_changes_and_sizes_of_images() {
    let env: TestEnv = surroundings();
    if !env.can_have_rooms("versions of objects") {
        return;
    }
    let repository = env.repository_with("acme", WATCHED, &[("hook.py", HOOK)]);
    env.ok(&repository, &["fork", "a"]);
    let worktree = env.root().join("acme-sandboxes/a");
    let words = ["-m", "pip", "install", "-q", "--no-compile", "--target", "py", "boto3"];
    if !installed(&worktree, "python3", &words) {
        return skip("boto3", "pip and a registry");
    }
    fs::write(worktree.join("shop.py"), VERSIONS).unwrap();
    env.ok(&repository, &["up", "-w", "a"]);
    let ran = env.run(&repository, &["exec", "-w", "a", "--", "python3", "shop.py"]);
    assert_eq!((ran.code, ran.stdout.trim()), (0, "done"), "{ran}");
    // The image was measured, and the app was notified only of it, as configured for the bucket.
    let image = env.json(&repository, &["objects", "media.width=640", "-w", "a", "--json"]);
    assert_eq!(
        (&image[0]["key"], &image[0]["media"]["height"]),
        (&"posted.png".into(), &480.into())
    );
    let shown = env.ok(&repository, &["objects", "-w", "a"]);
    assert!(shown.contains("640 × 480"), "{shown}");
    let told = || fs::read_to_string(worktree.join("told.txt")).unwrap_or_default();
    hothouse_testkit::wait_until("the app is told", || !told().is_empty());
    assert_eq!(told(), "ObjectCreated:Post posted.png\n");
    let webhooks = env.json(&repository, &["webhooks", "vendor=s3", "-w", "a", "--json"]);
    assert_eq!(webhooks.as_array().unwrap().len(), 1, "{webhooks:#}");
}

#[test]
fn clients_of_google_cloud_storage_use_the_same_store() {
    let env: TestEnv = surroundings();
    if !env.can_have_rooms("clients of Google Cloud Storage") {
        return;
    }
    let repository = env.repository_with("acme", WATCHED, &[("hook.py", HOOK)]);
    env.ok(&repository, &["fork", "a"]);
    let worktree = env.root().join("acme-sandboxes/a");
    let words =
        ["-m", "pip", "install", "-q", "--no-compile", "--target", "py", "google-cloud-storage"];
    fs::write(worktree.join("package.json"), "{}").unwrap();
    let node = ["install", "--no-audit", "--no-fund", "@google-cloud/storage"];
    if !installed(&worktree, "python3", &words) || !installed(&worktree, "npm", &node) {
        return skip("clients of Google Cloud Storage", "pip, npm and registries");
    }
    fs::write(worktree.join("shop.py"), GCS_PYTHON).unwrap();
    fs::write(worktree.join("shop.mjs"), GCS_NODE).unwrap();
    env.ok(&repository, &["up", "-w", "a"]);
    for words in [["python3", "shop.py"], ["node", "shop.mjs"]] {
        let ran = env.run(&repository, &[&["exec", "-w", "a", "--"], &words[..]].concat());
        assert_eq!((ran.code, ran.stdout.trim()), (0, "done"), "{ran}");
    }
    let listed = env.json(&repository, &["objects", "-w", "a", "--json"]);
    assert_eq!(keys(&listed, "gcs-goods"), ["a/ü.txt", "large"], "{listed:#}");
    assert_eq!(keys(&listed, "node-goods"), ["resumable", "simple"], "{listed:#}");
}

const AZURE_PYTHON: &str = r#"
import sys
sys.path.insert(0, "py")
from azure.storage.blob import BlobServiceClient, ContentSettings
from azure.core.exceptions import ResourceNotFoundError, ResourceExistsError
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
for url in ["http://127.0.0.1:9000/acme", "https://acme.blob.core.windows.net"]:
    service = BlobServiceClient(url, credential={"account_name": "acme", "account_key": KEY})
    name = "port-goods" if "127" in url else "host-goods"
    container = service.create_container(name)
    try: service.create_container(name); raise SystemExit("a container was made twice")
    except ResourceExistsError: pass
    blob = container.upload_blob("a/ü.txt", b"hello", metadata={"order": "1"}, content_settings=ContentSettings(content_type="text/plain"))
    assert blob.download_blob().readall() == b"hello"
    assert blob.download_blob(offset=1, length=3).readall() == b"ell"
    about = blob.get_blob_properties()
    assert about.size == 5 and about.content_settings.content_type == "text/plain" and about.metadata == {"order": "1"}, about
    container.upload_blob("b", b"x" * 100000)
    # In blocks, as everything large is sent.
    split = BlobServiceClient(url, credential={"account_name": "acme", "account_key": KEY}, max_single_put_size=1000, max_block_size=700)
    large = split.get_blob_client(name, "large")
    large.upload_blob(bytes(range(256)) * 10, content_settings=ContentSettings(content_type="text/x-large"))
    assert large.download_blob().readall() == bytes(range(256)) * 10
    assert large.get_blob_properties().content_settings.content_type == "text/x-large"
    large.stage_block("later", b"later")
    assert [(one.id, one.size) for one in large.get_block_list("all")[1]] == [("later", 5)], large.get_block_list("all")
    assert [one.name for one in container.list_blobs(name_starts_with="a/")] == ["a/ü.txt"]
    assert name in [one.name for one in service.list_containers()]
    container.get_blob_client("copy").start_copy_from_url(f"{url}/{name}/b")
    container.delete_blob("b")
    try: container.download_blob("b"); raise SystemExit("a deleted blob is there")
    except ResourceNotFoundError: pass
print("done")
"#;

const AZURE_NODE: &str = r#"
import assert from 'node:assert/strict';
import { BlobServiceClient, StorageSharedKeyCredential } from '@azure/storage-blob';
const key = 'Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==';
const service = new BlobServiceClient('http://127.0.0.1:9000/acme', new StorageSharedKeyCredential('acme', key));
const container = service.getContainerClient('node-blobs');
await container.create();
const blob = container.getBlockBlobClient('a.txt');
await blob.upload('hello', 5, { blobHTTPHeaders: { blobContentType: 'text/plain' }, metadata: { order: '1' } });
assert.equal((await blob.downloadToBuffer()).toString(), 'hello');
const about = await blob.getProperties();
assert.deepEqual([about.contentLength, about.contentType, about.metadata.order], [5, 'text/plain', '1']);
const blocks = container.getBlockBlobClient('blocks');
await blocks.uploadData(Buffer.alloc(5000, 'y'), { blockSize: 1500, maxSingleShotSize: 1000 });
assert.equal((await blocks.downloadToBuffer()).toString(), 'y'.repeat(5000));
const names = [];
for await (const one of container.listBlobsFlat()) names.push(one.name);
assert.deepEqual(names, ['a.txt', 'blocks']);
await blob.delete();
assert.equal(await blob.exists(), false);
console.log('done');
"#;

#[test]
fn clients_of_azure_use_the_same_store() {
    let env: TestEnv = surroundings();
    if !env.can_have_rooms("clients of Azure") {
        return;
    }
    let config = format!(
        "{CONFIG}[integration.azure]\nclass = \"sink\"\nhosts = [\"acme.blob.core.windows.net\"]\n"
    );
    let repository = env.repository("acme", &config);
    env.ok(&repository, &["fork", "a"]);
    let worktree = env.root().join("acme-sandboxes/a");
    let words =
        ["-m", "pip", "install", "-q", "--no-compile", "--target", "py", "azure-storage-blob"];
    fs::write(worktree.join("package.json"), "{}").unwrap();
    let node = ["install", "--no-audit", "--no-fund", "@azure/storage-blob"];
    if !installed(&worktree, "python3", &words) || !installed(&worktree, "npm", &node) {
        return skip("clients of Azure", "pip, npm and registries");
    }
    fs::write(worktree.join("shop.py"), AZURE_PYTHON).unwrap();
    fs::write(worktree.join("shop.mjs"), AZURE_NODE).unwrap();
    env.ok(&repository, &["up", "-w", "a"]);
    for words in [["python3", "shop.py"], ["node", "shop.mjs"]] {
        let ran = env.run(&repository, &[&["exec", "-w", "a", "--"], &words[..]].concat());
        assert_eq!((ran.code, ran.stdout.trim()), (0, "done"), "{ran}");
    }
    let listed = env.json(&repository, &["objects", "-w", "a", "--json"]);
    assert_eq!(keys(&listed, "host-goods"), ["a/ü.txt", "copy", "large"], "{listed:#}");
}
