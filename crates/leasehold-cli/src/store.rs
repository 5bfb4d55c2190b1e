//! Which store is meant, and how to speak of it without its secrets.

use std::time::Duration;

use leasehold::Session;
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use crate::args::{Claim, Common};
use crate::exit::Failure;
use crate::nested;

/// The URL of the store: `--url`, else the default.
pub(crate) fn url(common: &Common) -> Result<String, Failure> {
    match &common.url {
        Some(url) => Ok(url.clone()),
        None => Ok(leasehold::default_url()?),
    }
}

/// A session with what the arguments say about the claim.
pub(crate) async fn connect(url: &str, claim: &Claim) -> Result<Session, Failure> {
    open(url, claim.ttl, claim.label.as_deref()).await
}

/// A session with this ttl and label, where they are given.
pub(crate) async fn open(
    url: &str,
    ttl: Option<Duration>,
    label: Option<&str>,
) -> Result<Session, Failure> {
    let label = nested::label(url, label);
    Ok(leasehold::connect(&with_options(url, ttl, label.as_deref())).await?)
}

/// The last of two equal options counts, so that the arguments win.
fn with_options(url: &str, ttl: Option<Duration>, label: Option<&str>) -> String {
    let ttl = ttl.map(|ttl| format!("ttl={}ns", ttl.as_nanos()));
    let label =
        label.map(|label| format!("label={}", utf8_percent_encode(label, NON_ALPHANUMERIC)));
    let mut url = url.to_owned();
    for option in ttl.into_iter().chain(label) {
        url.push(if url.contains('?') { '&' } else { '?' });
        url.push_str(&option);
    }
    url
}

/// What tells one store from another: the URL without options, user and
/// password, and a file by its full path.
pub(crate) fn identity(url: &str) -> String {
    let place = url.split_once('?').map_or(url, |(place, _)| place);
    let Some((scheme, rest)) = place.split_once(':') else {
        return String::new();
    };
    if scheme == "sqlite" {
        let path = percent_decode_str(rest.strip_prefix("//").unwrap_or(rest)).decode_utf8_lossy();
        let full = std::fs::canonicalize(&*path);
        return format!(
            "sqlite:{}",
            full.map_or(path.into_owned(), |full| full.display().to_string())
        );
    }
    if scheme == "redlock" {
        let nodes = rest.strip_prefix("//").unwrap_or(rest).split(',');
        let nodes: Vec<_> = nodes.map(node).collect();
        return format!("redlock://{}", nodes.join(","));
    }
    let place = match rest.rsplit_once('@') {
        Some((_, host)) => format!("{scheme}://{host}"),
        None => format!("{scheme}:{rest}"),
    };
    // The locks of two schemas are two stores.
    let schema = ["postgres", "postgresql", "mysql", "mariadb"]
        .contains(&scheme)
        .then(|| schema(url));
    match schema.flatten() {
        Some(schema) => format!("{place}?schema={schema}"),
        None => place,
    }
}

/// The label that is in the URL.
pub(crate) fn label(url: &str) -> Option<String> {
    let label = percent_decode_str(option(url, "label=")?);
    Some(label.decode_utf8_lossy().into_owned())
}

fn schema(url: &str) -> Option<&str> {
    option(url, "schema=")
}

/// The last of equal options counts.
fn option<'a>(url: &'a str, key: &str) -> Option<&'a str> {
    let (_, options) = url.split_once('?')?;
    let mut options = options.split('&').rev();
    options.find_map(|option| option.strip_prefix(key))
}

/// One of several servers, each of which may have its own user and password.
fn node(place: &str) -> String {
    let known = ["redis://", "rediss://", "unix:"];
    let way = known.into_iter().find(|way| place.starts_with(way));
    let way = way.unwrap_or("");
    let place = &place[way.len()..];
    let host = place.rsplit_once('@').map_or(place, |(_, host)| host);
    format!("{way}{host}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_has_no_secret() {
        let identity = identity("redis://user:hunter2@host:6379/0?password=hunter2");
        assert_eq!(identity, "redis://host:6379/0");
        assert_eq!(super::identity("hunter2"), "");
    }

    #[test]
    fn two_schemas_of_a_database_are_two_stores() {
        let identity = identity("postgres://ann:hunter2@db/shop?ttl=5s&schema=locks");
        assert_eq!(identity, "postgres://db/shop?schema=locks");
        assert_eq!(
            super::identity("postgres://db/shop?ttl=5s"),
            "postgres://db/shop"
        );
    }

    #[test]
    fn every_node_is_named_and_no_secret_of_any() {
        let identity = identity(
            "redlock://a,ann:hunter2@b:7000/3,rediss://:x://hunter2@c,unix:/run/r.sock?ttl=5s",
        );
        assert_eq!(identity, "redlock://a,b:7000/3,rediss://c,unix:/run/r.sock");
    }

    #[test]
    fn a_file_has_one_identity_however_it_is_spelled() {
        let spelled = identity("sqlite:/usr/../usr/./bin?ttl=5s");
        assert_eq!(spelled, identity("sqlite:///usr/bin"));
    }
}
