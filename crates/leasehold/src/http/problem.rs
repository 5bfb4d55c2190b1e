//! Answers that say what is wrong, as RFC 9457 has it.

use http::{HeaderValue, Response, StatusCode, header};

use crate::error::{Error, ErrorKind};

/// An answer that says what is wrong, as RFC 9457 has it.
#[derive(Debug)]
pub(super) struct Problem {
    status: StatusCode,
    title: &'static str,
    detail: String,
    fields: String,
}

impl Problem {
    pub(super) fn new(status: StatusCode, title: &'static str, detail: impl Into<String>) -> Self {
        Self {
            status,
            title,
            detail: detail.into(),
            fields: String::new(),
        }
    }

    /// Why a request does not pass. The holder's part of the mark is told only
    /// to those who have proven that they are no strangers.
    pub(super) fn of(error: &Error, resource: &str, is_trusted: bool) -> Self {
        let ErrorKind::Stale(stale) = error.kind() else {
            let status = StatusCode::SERVICE_UNAVAILABLE;
            return Self::new(status, "cannot pass", error.to_string());
        };
        let mark = stale.mark.map(|mark| match is_trusted {
            true => mark.to_string(),
            false => mark.token.to_string(),
        });
        let mark = mark.unwrap_or_default();
        let why = format!("fence {} is stale: {resource} is at {mark}", stale.shown);
        let fields = format!(
            ",\"resource\":{},\"shown\":\"{}\",\"mark\":\"{mark}\"",
            quoted(resource),
            stale.shown,
        );
        let problem = Self::new(StatusCode::CONFLICT, "stale fence", why);
        Self { fields, ..problem }
    }

    pub(super) fn response(self) -> Response<String> {
        let text = format!(
            "{{\"type\":\"about:blank\",\"title\":\"{}\",\"status\":{},\"detail\":{}{}}}\n",
            self.title,
            self.status.as_u16(),
            quoted(&self.detail),
            self.fields
        );
        let mut response = Response::new(text);
        *response.status_mut() = self.status;
        let kind = HeaderValue::from_static("application/problem+json");
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        response
    }
}

/// A string of JSON.
fn quoted(text: &str) -> String {
    let escaped = text.chars().map(|it| match it {
        '"' => "\\\"".to_owned(),
        '\\' => "\\\\".to_owned(),
        it if it.is_control() => format!("\\u{:04x}", u32::from(it)),
        it => it.to_string(),
    });
    format!("\"{}\"", escaped.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_json_whatever_the_request_says() {
        assert_eq!(quoted("a\"b\\c\n"), "\"a\\\"b\\\\c\\u000a\"");
        let problem = Problem::new(StatusCode::BAD_REQUEST, "not a fence", "it is \"x\"");
        let response = problem.response();
        assert_eq!(response.status(), 400);
        let expected = "{\"type\":\"about:blank\",\"title\":\"not a fence\",\"status\":400,\
                        \"detail\":\"it is \\\"x\\\"\"}\n";
        assert_eq!(response.body(), expected);
    }
}
