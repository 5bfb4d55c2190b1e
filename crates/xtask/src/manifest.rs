//! Reading just enough of `Cargo.toml`: tables and the keys in them.

/// The keys of one table with the first line of their values, in their order.
pub(crate) fn table<'a>(manifest: &'a str, name: &str) -> Vec<(&'a str, &'a str)> {
    let mut inside = false;
    let mut depth = 0;
    let mut keys = Vec::new();
    for line in manifest.lines().map(without_comment) {
        // A bracket at the start of a line opens a table, unless it is inside
        // an array that spans lines.
        if depth == 0 && line.starts_with('[') {
            inside = line.trim_matches(['[', ']']) == name;
            continue;
        }
        if inside
            && depth == 0
            && let Some((key, value)) = line.split_once('=')
        {
            keys.push((key.trim().trim_matches('"'), value.trim()));
        }
        depth += line.matches(['[', '{']).count();
        depth -= line.matches([']', '}']).count().min(depth);
    }
    keys
}

/// The features of a crate, without `default`, which only names others.
pub(crate) fn features(manifest: &str) -> Vec<&str> {
    let keys = table(manifest, "features").into_iter().map(|(key, _)| key);
    keys.filter(|key| *key != "default").collect()
}

/// The line up to a `#` outside of quotes.
fn without_comment(line: &str) -> &str {
    let mut quoted = false;
    let end = line.find(|c| {
        quoted ^= c == '"';
        c == '#' && !quoted
    });
    line[..end.unwrap_or(line.len())].trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str = r##"
[package]
name = "example" # a comment = not a key
description = "locks # and [features]"

[features]
default = ["sqlite"]
# The embedded store.
sqlite = ["dep:rusqlite"]
everything = [
    "sqlite",
    # redis = "not yet"
    "conformance",
]
"conformance" = []

[dependencies]
tokio = { version = "1", features = ["rt"] }

[lints]
workspace = true
"##;

    #[test]
    fn features_are_the_keys_of_their_table_except_default() {
        assert_eq!(features(MANIFEST), ["sqlite", "everything", "conformance"]);
    }

    #[test]
    fn a_manifest_without_features_has_none() {
        assert!(features("[package]\nname = \"xtask\"\n").is_empty());
    }

    #[test]
    fn values_come_without_comments() {
        let package = table(MANIFEST, "package");
        assert_eq!(package[0], ("name", "\"example\""));
        assert_eq!(package[1].1, "\"locks # and [features]\"");
        assert_eq!(table(MANIFEST, "lints"), [("workspace", "true")]);
    }
}
