//! Where one request or reply ends and the next begins, in RESP2 and RESP3.

/// The length of the first frame, if all of it is there.
pub fn length(bytes: &[u8]) -> Option<usize> {
    let line = bytes.windows(2).position(|two| two == b"\r\n")?;
    let (head, body) = (&bytes[..line], line + 2);
    let (kind, rest) = head.split_first()?;
    match kind {
        b'$' | b'=' | b'!' => match number(rest) {
            Some(length) => (bytes.len() >= body + length + 2).then_some(body + length + 2),
            // A null has no body.
            None => Some(body),
        },
        b'*' | b'~' | b'>' => frames(bytes, body, number(rest).unwrap_or(0)),
        b'%' => frames(bytes, body, 2 * number(rest).unwrap_or(0)),
        // An attribute comes before the reply that it belongs to.
        b'|' => frames(bytes, body, 2 * number(rest).unwrap_or(0) + 1),
        _ => Some(body),
    }
}

/// The strings of a frame, one after the other: a command and its arguments,
/// or the words of a line.
pub fn words(frame: &[u8]) -> Vec<Vec<u8>> {
    let Some(line) = frame.windows(2).position(|two| two == b"\r\n") else {
        return Vec::new();
    };
    let (head, mut rest) = (&frame[..line], &frame[line + 2..]);
    if !matches!(head.first(), Some(b'*' | b'>')) {
        let words = head.split(|byte| *byte == b' ');
        return words.map(<[u8]>::to_vec).collect();
    }
    let mut words = Vec::new();
    while let Some(end) = length(rest).filter(|_| !rest.is_empty()) {
        words.push(text(&rest[..end]));
        rest = &rest[end..];
    }
    words
}

/// The inside of a string, whichever kind it is.
fn text(frame: &[u8]) -> Vec<u8> {
    let line = frame.windows(2).position(|two| two == b"\r\n");
    let line = line.unwrap_or(frame.len());
    match frame.first() {
        Some(b'$') if frame.len() > line + 2 => frame[line + 2..frame.len() - 2].to_vec(),
        _ => frame[1..line].to_vec(),
    }
}

/// The end of so many frames that begin there.
fn frames(bytes: &[u8], begin: usize, count: usize) -> Option<usize> {
    let mut end = begin;
    for _ in 0..count {
        end += length(&bytes[end..])?;
    }
    Some(end)
}

/// `None` for a null, which has a negative length.
fn number(digits: &[u8]) -> Option<usize> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}
