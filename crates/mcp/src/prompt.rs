//! Prompts: what a user can start a model with.

use serde_json::{Value, json};

/// A prompt without arguments.
#[derive(Clone, Debug)]
pub struct Prompt {
    pub name: String,
    pub about: String,
    pub text: String,
}

impl Prompt {
    pub fn new(name: &str, about: &str, text: &str) -> Self {
        Self { name: name.to_owned(), about: about.to_owned(), text: text.to_owned() }
    }

    /// Writes the prompt as `prompts/list` has it.
    pub fn shown(&self) -> Value {
        json!({ "name": self.name, "title": self.name, "description": self.about })
    }

    /// Writes the prompt as `prompts/get` returns it.
    pub fn messages(&self) -> Value {
        let content = json!({ "type": "text", "text": self.text });
        json!({
            "description": self.about,
            "messages": [{ "role": "user", "content": content }],
        })
    }
}
