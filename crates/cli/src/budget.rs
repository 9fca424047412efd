//! Cuts long texts to a budget of tokens, with a line to continue from.

/// Which part of a long text to show.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    /// The approximate number of tokens to show; `None` means all.
    pub(crate) tokens: Option<usize>,
    /// The first line to show, from 0.
    pub(crate) first_line: usize,
}

/// A part of a text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Cut<'a> {
    pub(crate) text: &'a str,
    /// The next line, if there are more.
    pub(crate) next_line: Option<usize>,
}

/// The approximate number of bytes in a token.
const TOKEN_BYTES: usize = 4;

/// Cuts a text at line ends. A line longer than the whole budget is still shown, because a reader
/// could never get past it otherwise.
pub(crate) fn cut(text: &str, budget: Budget) -> Cut<'_> {
    let starts = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1));
    let mut lines = starts.enumerate().skip(budget.first_line);
    let Some((_, begin)) = lines.next() else { return Cut { text: "", next_line: None } };
    let rest = &text[begin..];
    let Some(bytes) = budget.tokens.map(|tokens| tokens.saturating_mul(TOKEN_BYTES)) else {
        return Cut { text: rest, next_line: None };
    };
    if rest.len() <= bytes {
        return Cut { text: rest, next_line: None };
    }
    let mut end = None;
    for (number, start) in lines {
        let fits = start - 1 - begin <= bytes;
        if !fits && end.is_some() {
            break;
        }
        end = Some((number, start - 1));
        if !fits {
            break;
        }
    }
    match end {
        Some((number, at)) => Cut { text: &text[begin..at], next_line: Some(number) },
        None => Cut { text: rest, next_line: None },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_at_lines_and_continues_where_it_ended() {
        let text = "one\ntwo\nthree\nfour";
        let cut = |tokens, first_line| cut(text, Budget { tokens, first_line });
        assert_eq!(cut(None, 0), Cut { text, next_line: None });
        assert_eq!(cut(None, 2), Cut { text: "three\nfour", next_line: None });
        assert_eq!(cut(Some(2), 0), Cut { text: "one\ntwo", next_line: Some(2) });
        assert_eq!(cut(Some(2), 2), Cut { text: "three", next_line: Some(3) });
        assert_eq!(cut(Some(2), 3), Cut { text: "four", next_line: None });
        assert_eq!(cut(Some(2), 9), Cut { text: "", next_line: None });
    }

    #[test]
    fn a_line_longer_than_the_budget_is_shown_whole() {
        let cut = cut("a long line\nb", Budget { tokens: Some(1), first_line: 0 });
        assert_eq!(cut, Cut { text: "a long line", next_line: Some(1) });
    }
}
