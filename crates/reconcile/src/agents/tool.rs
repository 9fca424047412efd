//! Coding agents by name, and their command lines. Pure.

/// A supported tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tool {
    Claude,
    Codex,
    Gemini,
    Copilot,
    OpenCode,
    Aider,
    /// A shell command.
    Command(String),
}

/// The secrets that `agent login` declares for a ChatGPT login of Codex: the token and the account.
pub(super) const CHATGPT_TOKEN: &str = "CODEX_CHATGPT_TOKEN";
pub(super) const CHATGPT_ACCOUNT: &str = "CODEX_CHATGPT_ACCOUNT";

/// The secret that `agent login` declares for a Google login of Gemini CLI.
pub(super) const GOOGLE_TOKEN: &str = "GOOGLE_CLOUD_ACCESS_TOKEN";

/// How to run a tool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Launch<'a> {
    pub prompt: Option<&'a str>,
    pub model: Option<&'a str>,
    /// Whether it works through its prompt and ends.
    pub unattended: bool,
    /// Whether it continues its last conversation.
    pub resumed: bool,
    /// Whether it needs an option to run hooks that the user has not reviewed, such as the guard's
    /// own (Codex).
    pub unseen_hooks: bool,
}

impl Tool {
    /// Returns the tool to use: the requested one, else the configured one, else Claude Code.
    pub fn of(asked: Option<&str>, configured: Option<&str>) -> Self {
        match asked.or(configured).unwrap_or("claude") {
            "claude" => Self::Claude,
            "codex" => Self::Codex,
            "gemini" => Self::Gemini,
            "copilot" => Self::Copilot,
            "opencode" => Self::OpenCode,
            "aider" => Self::Aider,
            command => Self::Command(command.to_owned()),
        }
    }

    pub fn name(&self) -> &str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::Copilot => "copilot",
            Self::OpenCode => "opencode",
            Self::Aider => "aider",
            Self::Command(command) => command,
        }
    }

    /// Returns the program that must be in the room, and how to install it.
    pub fn program(&self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Claude => Some(("claude", "npm install -g @anthropic-ai/claude-code")),
            Self::Codex => Some(("codex", "npm install -g @openai/codex")),
            Self::Gemini => Some(("gemini", "npm install -g @google/gemini-cli")),
            Self::Copilot => Some(("copilot", "npm install -g @github/copilot")),
            Self::OpenCode => Some(("opencode", "npm install -g opencode-ai")),
            Self::Aider => Some(("aider", "pipx install aider-chat")),
            Self::Command(_) => None,
        }
    }

    /// Returns a command that is a single plain word, so that it can be looked up before it is run.
    pub fn single_word(&self) -> Option<&str> {
        let Self::Command(command) = self else { return None };
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./+".contains(c);
        let is_word =
            !command.is_empty() && !command.starts_with('-') && command.chars().all(is_plain);
        is_word.then_some(command.as_str())
    }

    /// Returns the tool's name if the guard can install hooks for it.
    pub fn guarded(&self) -> Option<&'static str> {
        match self {
            Self::Claude => Some("claude"),
            Self::Codex => Some("codex"),
            Self::Gemini => Some("gemini"),
            Self::Copilot => Some("copilot"),
            Self::OpenCode => Some("opencode"),
            Self::Aider | Self::Command(_) => None,
        }
    }

    /// Returns the variables through which the tool accepts a login.
    pub fn login_variable(&self) -> Option<&'static [&'static str]> {
        match self {
            Self::Claude => Some(&["CLAUDE_CODE_OAUTH_TOKEN", "ANTHROPIC_API_KEY"]),
            Self::Codex => Some(&[CHATGPT_TOKEN, "CODEX_API_KEY", "OPENAI_API_KEY"]),
            Self::Aider => Some(&["OPENAI_API_KEY", "ANTHROPIC_API_KEY"]),
            Self::Gemini => Some(&[GOOGLE_TOKEN, "GEMINI_API_KEY"]),
            Self::Copilot => Some(&["COPILOT_GITHUB_TOKEN", "GH_TOKEN"]),
            Self::OpenCode | Self::Command(_) => None,
        }
    }

    /// Returns the option to run unreviewed hooks, and how to detect whether the tool has it.
    pub fn unseen_hooks(&self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Codex => {
                Some(("--dangerously-bypass-hook-trust", "codex --help; codex exec --help"))
            }
            _ => None,
        }
    }

    /// Returns the variables that the tool needs in a room. They lift restrictions of the tool,
    /// because the room already confines it.
    pub fn variables(&self) -> &'static [(&'static str, &'static str)] {
        match self {
            // Otherwise Gemini CLI neither runs in an unknown folder nor applies its settings.
            Self::Gemini => &[("GEMINI_CLI_TRUST_WORKSPACE", "true")],
            // Only whoever installed the package can update it.
            Self::Copilot => &[("COPILOT_AUTO_UPDATE", "false")],
            Self::OpenCode => &[("OPENCODE_DISABLE_AUTOUPDATE", "1")],
            _ => &[],
        }
    }

    /// Returns the argv. The room confines the tool, so it need not ask for what the guard allows.
    pub fn argv(&self, launch: &Launch<'_>) -> Vec<String> {
        let Launch { prompt, model, unattended, resumed, unseen_hooks } = *launch;
        let prompt = prompt.unwrap_or_default();
        let mut argv: Vec<&str> = Vec::new();
        match self {
            Self::Claude => {
                argv.push("claude");
                if resumed {
                    argv.push("--continue");
                }
                argv.extend(["--permission-mode", "acceptEdits"]);
                argv.extend(model.into_iter().flat_map(|model| ["--model", model]));
                if unattended {
                    argv.extend(["-p", "--output-format", "stream-json", "--verbose"]);
                }
            }
            Self::Codex => {
                argv.push("codex");
                argv.extend(unattended.then_some("exec"));
                argv.extend(["--sandbox", "danger-full-access"]);
                argv.extend(self.unseen_hooks().filter(|_| unseen_hooks).map(|(option, _)| option));
                argv.extend(model.into_iter().flat_map(|model| ["--model", model]));
                argv.extend(resumed.then_some(["resume", "--last"]).into_iter().flatten());
            }
            Self::Gemini => {
                argv.extend(["gemini", "--yolo"]);
                argv.extend(resumed.then_some(["--resume", "latest"]).into_iter().flatten());
                argv.extend(model.into_iter().flat_map(|model| ["--model", model]));
                argv.extend((!prompt.is_empty()).then_some(if unattended { "-p" } else { "-i" }));
            }
            Self::Copilot => {
                argv.extend(["copilot", "--allow-all-tools"]);
                argv.extend(resumed.then_some("--continue"));
                argv.extend(model.into_iter().flat_map(|model| ["--model", model]));
                argv.extend((!prompt.is_empty()).then_some(if unattended { "-p" } else { "-i" }));
            }
            Self::OpenCode => {
                argv.push("opencode");
                argv.extend(unattended.then_some("run"));
                argv.extend(resumed.then_some("--continue"));
                argv.extend(model.into_iter().flat_map(|model| ["--model", model]));
                argv.extend((!prompt.is_empty() && !unattended).then_some("--prompt"));
            }
            Self::Aider => {
                argv.extend(["aider", "--yes-always"]);
                argv.extend(model.into_iter().flat_map(|model| ["--model", model]));
                argv.extend((!prompt.is_empty()).then_some("--message"));
            }
            Self::Command(command) => {
                return ["/bin/sh", "-c", command].map(str::to_owned).to_vec();
            }
        }
        argv.extend((!prompt.is_empty()).then_some(prompt));
        argv.into_iter().map(str::to_owned).collect()
    }
}

/// Converts terminal output to plain text, without escape sequences and control characters.
pub fn visible_text(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' => match chars.next() {
                // A CSI sequence ends with a letter or one of `@[\]^_{|}~`.
                Some('[') => {
                    while chars.next().is_some_and(|c| !('\u{40}'..='\u{7e}').contains(&c)) {}
                }
                // A string sequence ends with a bell or `ESC \`.
                Some(']' | 'P' | '_' | '^') => {
                    while let Some(c) = chars.next() {
                        if c == '\u{7}' || c == '\u{1b}' && chars.next_if_eq(&'\\').is_some() {
                            break;
                        }
                    }
                }
                _ => {}
            },
            '\r' if chars.peek() != Some(&'\n') => out.push('\n'),
            '\n' | '\t' => out.push(c),
            c if c.is_control() => {}
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_gets_its_prompt_as_one_argument() {
        let launch =
            Launch { prompt: Some("make it; rm -rf /"), unattended: true, ..Launch::default() };
        for name in ["claude", "codex", "gemini", "copilot", "opencode", "aider"] {
            let argv = Tool::of(Some(name), None).argv(&launch);
            assert_eq!(argv.last().map(String::as_str), launch.prompt, "{name}");
            assert_eq!(argv[0], name);
        }
        assert_eq!(Tool::of(Some("bash x.sh"), None).argv(&launch), ["/bin/sh", "-c", "bash x.sh"]);
        assert_eq!(Tool::of(None, Some("codex")), Tool::Codex);
        assert_eq!(Tool::of(None, None), Tool::Claude);
    }

    #[test]
    fn a_conversation_is_continued_where_the_tool_can() {
        let launch = Launch { resumed: true, unseen_hooks: true, ..Launch::default() };
        for (name, words) in [
            ("claude", "claude --continue --permission-mode acceptEdits"),
            (
                "codex",
                "codex --sandbox danger-full-access --dangerously-bypass-hook-trust resume --last",
            ),
            ("gemini", "gemini --yolo --resume latest"),
            ("copilot", "copilot --allow-all-tools --continue"),
            ("opencode", "opencode --continue"),
        ] {
            assert_eq!(Tool::of(Some(name), None).argv(&launch).join(" "), words);
        }
    }

    #[test]
    fn a_terminal_is_shown_as_text() {
        for (bytes, want) in [
            (&b"a\x1b[31mb\x1b[0mc"[..], "abc"),
            (b"\x1b]0;title\x07x", "x"),
            (b"\x1b]0;title\x1b\\x", "x"),
            (b"one\r\ntwo\rthree", "one\ntwo\nthree"),
            (b"\x07\x08a\xff", "a\u{fffd}"),
            (b"\x1b[", ""),
            (b"\x1b]unended", ""),
        ] {
            assert_eq!(visible_text(bytes), want);
        }
    }
}
