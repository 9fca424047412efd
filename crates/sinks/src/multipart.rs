//! Parses `multipart/form-data` bodies.

/// The maximum number of fields.
const PART_LIMIT: usize = 1000;

/// A field of a form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) name: String,
    pub(crate) file: Option<String>,
    pub(crate) content_type: String,
    pub(crate) bytes: Vec<u8>,
}

impl Part {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}

/// Parses the fields of a form. `None` if the content type has no boundary.
pub(crate) fn parse(content_type: &str, body: &[u8]) -> Option<Vec<Part>> {
    let boundary = parameter(content_type, "boundary")
        .filter(|boundary| (1..=200).contains(&boundary.len()))?;
    let first = format!("--{boundary}").into_bytes();
    let between = format!("\r\n--{boundary}").into_bytes();
    let start = find(body, &first)? + first.len();
    let mut rest = &body[start..];
    let mut parts = Vec::new();
    while parts.len() < PART_LIMIT {
        let Some(content) = rest.strip_prefix(b"\r\n") else { break };
        let end = find(content, &between)?;
        parts.extend(part(&content[..end]));
        rest = &content[end + between.len()..];
    }
    Some(parts)
}

fn part(bytes: &[u8]) -> Option<Part> {
    let end = find(bytes, b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(&bytes[..end]);
    let header = |wanted: &str| {
        head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.trim().eq_ignore_ascii_case(wanted).then(|| value.trim().to_owned())
        })
    };
    let disposition = header("content-disposition")?;
    Some(Part {
        name: parameter(&disposition, "name")?,
        file: parameter(&disposition, "filename"),
        content_type: header("content-type").unwrap_or_default(),
        bytes: bytes[end + 4..].to_vec(),
    })
}

/// Returns a parameter of a header, without its quotes.
fn parameter(header: &str, wanted: &str) -> Option<String> {
    let mut rest = header.split_once(';')?.1;
    loop {
        let (name, value) = rest.split_once('=')?;
        let value = value.trim_start();
        let (value, after) = match value.strip_prefix('"') {
            Some(inner) => inner.split_once('"').unwrap_or((inner, "")),
            None => value.split_once(';').unwrap_or((value, "")),
        };
        if name.trim_matches([' ', ';', '\t']).eq_ignore_ascii_case(wanted) {
            return Some(value.trim().to_owned());
        }
        rest = after;
    }
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    memchr::memmem::find(bytes, wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_and_files_are_read() {
        let body = b"preamble\r\n--x\r\nContent-Disposition: form-data; name=\"to\"\r\n\r\na@b\r\n--x\r\n\
            content-disposition: form-data; name=attachment; filename=\"a;b.txt\"\r\nContent-Type: text/plain\r\n\r\n\r\n--\r\n--x--\r\n";
        let parts = parse("multipart/form-data; charset=utf-8; boundary=\"x\"", body).unwrap();
        assert_eq!(
            (parts[0].name.as_str(), parts[0].text().as_str(), &parts[0].file),
            ("to", "a@b", &None)
        );
        assert_eq!(
            (parts[1].file.as_deref(), &parts[1].bytes[..]),
            (Some("a;b.txt"), &b"\r\n--"[..])
        );
        assert_eq!(parts.len(), 2);
    }

    #[test]
    fn broken_forms_are_refused() {
        for (kind, body) in [
            ("multipart/form-data", "--x\r\n"),
            ("multipart/form-data; boundary=", "--\r\n\r\n"),
            ("multipart/form-data; boundary=x", "--y"),
            (
                "multipart/form-data; boundary=x",
                "--x\r\nContent-Disposition: form-data; name=a\r\n\r\nno end",
            ),
        ] {
            assert_eq!(parse(kind, body.as_bytes()), None, "{kind} {body}");
        }
    }
}
