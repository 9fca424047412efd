//! Words of a command line.

use std::collections::VecDeque;

pub(crate) struct Words(VecDeque<String>);

impl Words {
    pub(crate) fn new(arguments: &[String]) -> Self {
        Self(arguments.iter().cloned().collect())
    }

    pub(crate) fn next(&mut self) -> Option<String> {
        self.0.pop_front()
    }

    /// Returns the next word if it is an option; `--` ends them.
    pub(crate) fn option(&mut self) -> Option<String> {
        match self.0.front() {
            Some(word) if word == "--" => {
                self.0.pop_front();
                None
            }
            Some(word) if word.starts_with("--") => self.0.pop_front(),
            _ => None,
        }
    }

    pub(crate) fn rest(&mut self) -> Vec<String> {
        self.0.drain(..).collect()
    }
}
