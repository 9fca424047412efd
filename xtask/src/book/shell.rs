//! Finds the commands of `hothouse` in a line of shell, accurately enough for documentation. Pure.

/// Returns the words of each `hothouse …` in a line, without its first.
pub(super) fn commands(line: &str) -> Vec<Vec<String>> {
    let is_prefix = |word: &String| word.contains('=') || word == "sudo";
    let all = segments(line).into_iter().filter_map(|words| {
        let mut words = words.into_iter().skip_while(is_prefix);
        (words.next()? == "hothouse").then(|| words.collect())
    });
    all.collect()
}

/// Splits a line where the shell begins another command; redirections end one too.
fn segments(line: &str) -> Vec<Vec<String>> {
    let (mut all, mut words, mut word) = (Vec::new(), Vec::new(), None::<String>);
    let (mut quote, mut chars) = (None, line.chars().peekable());
    while let Some(c) = chars.next() {
        let opens = c == '$' && chars.peek() == Some(&'(');
        match (quote, c) {
            // A substitution is a command of its own, also within double quotes.
            (None | Some('"'), _) if opens => {
                chars.next();
                quote = None;
                words.extend(word.take());
                all.push(std::mem::take(&mut words));
            }
            (Some(open), _) if c == open => quote = None,
            (Some(_), _) => word.get_or_insert_default().push(c),
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, '#') if word.is_none() => break,
            (None, '\\') => word.get_or_insert_default().extend(chars.next()),
            (None, ' ' | '\t') => words.extend(word.take()),
            (None, ';' | '|' | '&' | '(' | ')' | '<' | '>' | '`') => {
                words.extend(word.take());
                all.push(std::mem::take(&mut words));
            }
            (None, _) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    all.push(words);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_of_a_line_is_found() {
        let check = |line: &str, expected: &[&[&str]]| {
            let expected: Vec<Vec<String>> = expected
                .iter()
                .map(|words| words.iter().map(|&word| word.to_owned()).collect())
                .collect();
            assert_eq!(commands(line), expected, "{line}");
        };
        check("hothouse fork a  # one", &[&["fork", "a"]]);
        check("hothouse pause; hothouse down && ls", &[&["pause"], &["down"]]);
        check("cd \"$(hothouse fork b)\"", &[&["fork", "b"]]);
        check(
            "A=1 hothouse exec -- sh -c 'a; b' | head -1",
            &[&["exec", "--", "sh", "-c", "a; b"]],
        );
        check("hothouse env -w a > env.sh", &[&["env", "-w", "a"]]);
        check("echo hothouse list", &[]);
    }
}
