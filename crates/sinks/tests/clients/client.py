"""Mail and errors by the SDKs of vendors; every failure ends the program."""
import os
import sys

sys.path.insert(0, "py")
os.environ["RESEND_API_URL"] = f"http://127.0.0.1:{os.environ['API_RESEND_COM']}"

import smtplib
from email.message import EmailMessage

import boto3
import resend
import sentry_sdk
from botocore.exceptions import ClientError

SUBJECT = "Grüße"
TEXT = "Your code is 482913, see https://shop.example/o/77."


def message():
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = "shop@acme.example", "ann@x.example", SUBJECT
    mail.set_content(TEXT)
    mail.add_attachment(b"abc", maintype="text", subtype="plain", filename="ä.txt")
    return mail


def client(name, host):
    return boto3.client(name, endpoint_url=f"http://127.0.0.1:{os.environ[host]}", region_name="us-east-1",
                        aws_access_key_id="a", aws_secret_access_key="b")


with smtplib.SMTP("127.0.0.1", int(os.environ["SMTP"]), timeout=10) as smtp:
    smtp.login("u", "p")
    assert smtp.send_message(message(), to_addrs=["ann@x.example", "hidden@x.example"]) == {}

resend.api_key = "re_test"
sent = resend.Emails.send({"from": "shop@acme.example", "to": ["ann@x.example"], "bcc": "hidden@x.example", "subject": SUBJECT, "text": TEXT,
                           "attachments": [{"filename": "ä.txt", "content": list(b"abc")}]})
assert sent["id"], sent

ses = client("ses", "EMAIL_US_EAST_1_AMAZONAWS_COM")
plain = {"Subject": {"Data": "plain"}, "Body": {"Text": {"Data": TEXT}}}
assert ses.send_email(Source="shop@acme.example", Destination={"ToAddresses": ["ann@x.example"]}, Message=plain)["MessageId"]
raw = {"Data": message().as_bytes()}
assert ses.send_raw_email(Source="shop@acme.example", Destinations=["ann@x.example", "hidden@x.example"], RawMessage=raw)["MessageId"]
try:
    ses.send_email(Source="shop@acme.example", Destination={}, Message=plain)
    raise SystemExit("a mail without a recipient was accepted")
except ClientError as error:
    assert error.response["Error"]["Code"] == "MissingParameter", error

new = client("sesv2", "EMAIL_US_EAST_1_AMAZONAWS_COM")
assert new.send_email(FromEmailAddress="shop@acme.example", Destination={"ToAddresses": ["ann@x.example", "hidden@x.example"]},
                      Content={"Raw": raw})["MessageId"]
assert client("sns", "SNS_US_EAST_1_AMAZONAWS_COM").publish(PhoneNumber="+15550001", Message=TEXT)["MessageId"]


def charge():
    raise ValueError("coupon 12 broke")


sentry_sdk.init(dsn=f"http://key@127.0.0.1:{os.environ['O1_INGEST_SENTRY_IO']}/42", release="1.0")
try:
    charge()
except ValueError as error:
    assert sentry_sdk.capture_exception(error)
sentry_sdk.flush(timeout=10)
print("done")
