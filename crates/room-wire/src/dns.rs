//! The answer to every DNS query while a room has no daemon.

const HEADER: usize = 12;

/// Turns a query into a SERVFAIL response (RFC 1035 4.1.1) with the same id and question.
pub fn servfail(question: &[u8]) -> Option<Vec<u8>> {
    let header = question.first_chunk::<HEADER>()?;
    let is_answer = header[2] & 0x80 != 0;
    if is_answer || header[4..6] != [0, 1] {
        return None;
    }
    let end = question_end(question)?;
    let mut answer = question[..end].to_vec();
    // QR set, opcode and RD kept; RA set, RCODE 2.
    answer[2] = 0x80 | (header[2] & 0x79);
    answer[3] = 0x82;
    answer[6..HEADER].fill(0);
    Some(answer)
}

/// Returns where the first question ends: labels, then type and class.
fn question_end(packet: &[u8]) -> Option<usize> {
    let mut at = HEADER;
    loop {
        let length = usize::from(*packet.get(at)?);
        match length {
            0 => break,
            1..=63 => at += 1 + length,
            // Nothing precedes the first question, so a compression pointer is invalid.
            _ => return None,
        }
    }
    let end = at + 5;
    (end <= packet.len()).then_some(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUESTION: &[u8] = b"\xab\xcd\x01\x20\0\x01\0\0\0\0\0\x01\x02db\x03lan\0\0\x01\0\x01";

    #[test]
    fn a_question_is_answered_with_servfail() {
        let packet = [QUESTION, b"\0\0\x29\x10\0\0\0\0\0\0\0"].concat();
        let answer = servfail(&packet).unwrap();
        assert_eq!(answer[..4], [0xab, 0xcd, 0x81, 0x82]);
        assert_eq!(answer[4..12], [0, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(answer[12..], QUESTION[12..]);
    }

    #[test]
    fn an_answer_or_a_broken_question_gets_silence() {
        assert_eq!(servfail(&answer_of(QUESTION)), None);
        for length in 0..QUESTION.len() {
            assert_eq!(servfail(&QUESTION[..length]), None);
        }
        assert_eq!(servfail(b"\xab\xcd\x01\x20\0\x01\0\0\0\0\0\0\xc0\x0c\0\x01\0\x01"), None);
    }

    fn answer_of(question: &[u8]) -> Vec<u8> {
        servfail(question).unwrap()
    }
}
