//! Just enough JSON to read one line of cargo's or a test program's messages.

/// The value of the first field of this name, if it is a string.
pub(crate) fn text(line: &str, field: &str) -> Option<String> {
    let mut rest = value(line, field)?.strip_prefix('"')?.chars();
    let mut text = String::new();
    loop {
        match rest.next()? {
            '"' => return Some(text),
            '\\' => match rest.next()? {
                'n' => text.push('\n'),
                't' => text.push('\t'),
                'r' => text.push('\r'),
                'b' => text.push('\u{8}'),
                'f' => text.push('\u{c}'),
                'u' => text.push(escaped(&mut rest)?),
                other => text.push(other),
            },
            other => text.push(other),
        }
    }
}

/// The value of the first field of this name, if it is a whole number.
pub(crate) fn number(line: &str, field: &str) -> Option<usize> {
    let value = value(line, field)?;
    let end = value.find(|c: char| !c.is_ascii_digit());
    value[..end.unwrap_or(value.len())].parse().ok()
}

fn value<'a>(line: &'a str, field: &str) -> Option<&'a str> {
    let (_, rest) = line.split_once(&format!("\"{field}\":"))?;
    Some(rest.trim_start())
}

/// Four hexadecimal digits. Half of a pair beyond the basic plane becomes a replacement
/// character: what is read here is shown to people, not compared.
fn escaped(rest: &mut std::str::Chars<'_>) -> Option<char> {
    let digits: String = rest.take(4).collect();
    let code = u32::from_str_radix(&digits, 16).ok()?;
    Some(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_found_with_and_without_a_space() {
        assert_eq!(text(r#"{"a":"x","b": "y"}"#, "a").unwrap(), "x");
        assert_eq!(text(r#"{"a":"x","b": "y"}"#, "b").unwrap(), "y");
        assert_eq!(text(r#"{"a":null}"#, "a"), None);
        assert_eq!(
            number(r#"{ "passed": 12, "failed": 0 }"#, "passed"),
            Some(12)
        );
    }

    #[test]
    fn escapes_are_undone() {
        let line = r#"{"stdout":"a \"b\"\n\u001b[1mc\\"}"#;
        assert_eq!(text(line, "stdout").unwrap(), "a \"b\"\n\u{1b}[1mc\\");
    }

    #[test]
    fn a_line_that_is_cut_off_has_no_value() {
        assert_eq!(text(r#"{"stdout":"abc"#, "stdout"), None);
    }
}
