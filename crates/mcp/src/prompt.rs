//! Prompts with which a user can start a conversation.

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

    /// Returns the prompt in the form of `prompts/list`.
    pub fn shown(&self) -> Value {
        json!({ "name": self.name, "title": self.name, "description": self.about })
    }

    /// Returns the prompt in the form of `prompts/get`.
    pub fn messages(&self) -> Value {
        let content = json!({ "type": "text", "text": self.text });
        json!({
            "description": self.about,
            "messages": [{ "role": "user", "content": content }],
        })
    }
}
