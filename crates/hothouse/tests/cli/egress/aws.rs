//! AWS clients in a room, which sign with a placeholder, and a host that verifies with the actual
//! key.

use std::{fs, process::Command};

use hothouse_testkit::skip;

use super::internet::walled_after;

const CONFIG: &str = "mode = \"allowlist\"\nallow = [\"good.example\", \"ADDRESS\"]\n\
    [secret.AWS_SECRET_ACCESS_KEY]\nhosts = [\"good.example\"]\nfrom = \"env:MY_KEY\"\nform = \"sigv4\"\n";

/// As in `internet.py`.
const KEY: &str = "the-real-key-of-aws-0123456789abcdefghij";

/// Signs a body in chunks, as the SDKs for Java and Go do; also with trailers.
const PIECES: &str = r#"
import datetime, hashlib, hmac, http.client, os, ssl
def mac(key, text): return hmac.new(key, text.encode(), hashlib.sha256).digest()
def sha256(data): return hashlib.sha256(data).hexdigest()
def put(path, kind):
    now = datetime.datetime.now(datetime.timezone.utc).strftime('%Y%m%dT%H%M%SZ')
    scope = now[:8] + '/us-east-1/s3/aws4_request'
    names = {'host': 'good.example', 'x-amz-content-sha256': kind, 'x-amz-date': now, 'x-amz-decoded-content-length': '150000'}
    canonical = '\n'.join(['PUT', path, ''] + [f'{name}:{value}' for name, value in names.items()] + ['', ';'.join(names), kind])
    key = ('AWS4' + os.environ['AWS_SECRET_ACCESS_KEY']).encode()
    for part in scope.split('/'): key = mac(key, part)
    when = now + '\n' + scope
    first = last = mac(key, f'AWS4-HMAC-SHA256\n{when}\n{sha256(canonical.encode())}').hex()
    body = b''
    for piece in [b'a' * 65536, b'b' * 65536, b'c' * 18928, b'']:
        last = mac(key, f'AWS4-HMAC-SHA256-PAYLOAD\n{when}\n{last}\n{sha256(b"")}\n{sha256(piece)}').hex()
        body += f'{len(piece):x};chunk-signature={last}\r\n'.encode() + piece + (b'\r\n' if piece else b'')
    if kind.endswith('-TRAILER'):
        trailer = 'x-amz-checksum-crc32c:sOO8/Q=='
        last = mac(key, f'AWS4-HMAC-SHA256-TRAILER\n{when}\n{last}\n{sha256((trailer + chr(10)).encode())}').hex()
        body += f'{trailer}\r\nx-amz-trailer-signature:{last}\r\n'.encode()
    body += b'\r\n'
    connection = http.client.HTTPSConnection('good.example', context=ssl.create_default_context(), timeout=20)
    credential = f'AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/{scope}, SignedHeaders={";".join(names)}, Signature={first}'
    connection.request('PUT', path, body, {**names, 'Authorization': credential, 'Content-Encoding': 'aws-chunked'})
    print(connection.getresponse().status)
put('/pieces', 'STREAMING-AWS4-HMAC-SHA256-PAYLOAD')
put('/trailers', 'STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER')
"#;

const BOTO: &str = r#"
import io, os, sys
sys.path.insert(0, 'py')
import boto3
from botocore.config import Config
config = Config(s3={'addressing_style': 'path'}, retries={'max_attempts': 1})
s3 = boto3.client('s3', endpoint_url='https://good.example', region_name='us-east-1', aws_access_key_id='AKIDEXAMPLE',
                  aws_secret_access_key=os.environ['AWS_SECRET_ACCESS_KEY'], config=config)
s3.put_object(Bucket='boto', Key='whole', Body=b'x' * 1000)
s3.put_object(Bucket='boto', Key='stream', Body=io.BytesIO(b'x' * 3_000_000))
s3.head_object(Bucket='boto', Key='a b/c')
print('done')
"#;

const SDK: &str = r#"
const { S3Client, PutObjectCommand, HeadObjectCommand } = require('./js/node_modules/@aws-sdk/client-s3');
const { Readable } = require('stream');
const secretAccessKey = process.env.AWS_SECRET_ACCESS_KEY;
const s3 = new S3Client({ endpoint: 'https://good.example', region: 'us-east-1', forcePathStyle: true, maxAttempts: 1,
  credentials: { accessKeyId: 'AKIDEXAMPLE', secretAccessKey } });
(async () => {
  await s3.send(new PutObjectCommand({ Bucket: 'node', Key: 'whole', Body: 'x'.repeat(1000) }));
  const body = Readable.from([Buffer.alloc(100000, 'a'), Buffer.alloc(50000, 'b')]);
  await s3.send(new PutObjectCommand({ Bucket: 'node', Key: 'stream', Body: body, ContentLength: 150000 }));
  await s3.send(new HeadObjectCommand({ Bucket: 'node', Key: 'a b/c' }));
  console.log('done');
})();
"#;

#[test]
fn clients_of_aws_sign_with_a_placeholder_and_the_host_gets_a_true_signature() {
    walled_after(
        CONFIG,
        |env, _| env.set("MY_KEY", KEY),
        |env, repository, internet| {
            let worktree = env.root().join("acme-sandboxes/a");
            let run =
                |words: &[&str]| env.run(repository, &[&["exec", "-w", "a", "--"], words].concat());
            let ran = run(&["python3", "-c", PIECES]);
            assert_eq!(ran.stdout, "200\n200\n", "{ran}");
            let said = |line: &str| internet.log().lines().any(|known| known == line);
            assert!(said("aws /pieces STREAMING-AWS4-HMAC-SHA256-PAYLOAD"), "{}", internet.log());
            assert!(
                said("aws /trailers STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"),
                "{}",
                internet.log()
            );

            // With the packages that this host can install.
            let installed = |program: &str, words: &[&str]| {
                let command = Command::new(program).args(words).current_dir(&worktree).output();
                command.is_ok_and(|output| output.status.success())
            };
            let pip = ["-m", "pip", "install", "-q", "--no-compile", "--target", "py", "boto3"];
            if installed("python3", &pip) {
                let ran = run(&["python3", "-c", BOTO]);
                assert_eq!(ran.stdout, "done\n", "{ran}");
                let lines = internet.log();
                let lines: Vec<&str> =
                    lines.lines().filter(|line| line.starts_with("aws /boto/")).collect();
                assert_eq!(lines.len(), 3, "{lines:?}");
                assert!(
                    !lines.iter().any(|line| line.contains(" is ") || line.contains(" are ")),
                    "{lines:?}"
                );
            } else {
                skip("boto3", "pip and a registry");
            }
            fs::create_dir_all(worktree.join("js")).unwrap();
            let npm =
                ["install", "--no-audit", "--no-fund", "--prefix", "js", "@aws-sdk/client-s3"];
            if installed("npm", &npm) {
                let ran = run(&["node", "-e", SDK]);
                assert_eq!(ran.stdout, "done\n", "{ran}");
                let lines = internet.log();
                let lines: Vec<&str> =
                    lines.lines().filter(|line| line.starts_with("aws /node/")).collect();
                assert_eq!(lines.len(), 3, "{lines:?}");
                assert!(
                    !lines.iter().any(|line| line.contains(" is ") || line.contains(" are ")),
                    "{lines:?}"
                );
            } else {
                skip("the AWS SDK for JavaScript", "npm and a registry");
            }
            assert!(!internet.log().contains(KEY));
        },
    );
}
