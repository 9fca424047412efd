//! The token usage that a vendor reports in a response: complete, in a list, or in events. Pure.

use serde_json::Value;

/// The tokens of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub input: Option<u64>,
    pub output: Option<u64>,
}

/// Returns the reported usage of a response, in any vendor's format.
pub fn read(bytes: &[u8]) -> Usage {
    match serde_json::from_slice::<Value>(bytes) {
        Ok(Value::Array(pieces)) => pieces.iter().fold(Usage::default(), |all, one| all.with(one)),
        Ok(tree) => Usage::default().with(&tree),
        Err(_) => String::from_utf8_lossy(bytes)
            .lines()
            .filter_map(|line| line.strip_prefix("data:"))
            .filter_map(|data| serde_json::from_str::<Value>(data.trim()).ok())
            .fold(Usage::default(), |all, one| all.with(&one)),
    }
}

impl Usage {
    /// Adds the usage in one piece. Pieces are cumulative, so the largest number counts.
    fn with(self, tree: &Value) -> Self {
        let places = ["/usage", "/message/usage", "/response/usage", "/usageMetadata"];
        let Some(usage) = places.iter().find_map(|place| tree.pointer(place)) else { return self };
        let sum = |names: &[&str]| {
            let numbers = names.iter().filter_map(|name| usage.get(name)?.as_u64());
            numbers.reduce(u64::saturating_add)
        };
        let input = sum(&[
            "prompt_tokens",
            "input_tokens",
            "cache_creation_input_tokens",
            "cache_read_input_tokens",
            "promptTokenCount",
            "toolUsePromptTokenCount",
        ]);
        let output = sum(&[
            "completion_tokens",
            "output_tokens",
            "candidatesTokenCount",
            "thoughtsTokenCount",
        ]);
        Self { input: self.input.max(input), output: self.output.max(output) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_is_found_in_whole_answers_lists_and_events() {
        for (answer, input, output) in [
            (r#"{"usage":{"prompt_tokens":3,"completion_tokens":5}}"#, Some(3), Some(5)),
            (
                "event: message_start\ndata: {\"message\":{\"usage\":{\"input_tokens\":7,\"cache_read_input_tokens\":2,\"output_tokens\":1}}}\n\n\
                 data: {\"usage\":{\"output_tokens\":40}}\n\n",
                Some(9),
                Some(40),
            ),
            (
                "data: {\"response\":{\"usage\":{\"input_tokens\":4,\"output_tokens\":6}}}\r\n\r\ndata: [DONE]\n",
                Some(4),
                Some(6),
            ),
            (
                r#"[{"usageMetadata":{"promptTokenCount":1,"candidatesTokenCount":2}},{"usageMetadata":{"promptTokenCount":1,"candidatesTokenCount":8,"thoughtsTokenCount":3}}]"#,
                Some(1),
                Some(11),
            ),
            ("data: not json\n", None, None),
            ("", None, None),
        ] {
            assert_eq!(read(answer.as_bytes()), Usage { input, output }, "{answer}");
        }
    }
}
