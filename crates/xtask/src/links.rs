//! Finding links in Markdown that lead to no file.

use crate::files;
use crate::shell;
use std::path::Path;

/// A complaint for every relative link in a Markdown file that leads nowhere.
///
/// # Errors
/// If a file cannot be read.
pub(crate) fn broken() -> Result<Vec<String>, String> {
    let root = shell::root();
    let mut complaints = Vec::new();
    for file in files::with_extension(&["md"])? {
        let text = files::text(&file)?;
        let folder = file.parent().unwrap_or(Path::new(""));
        let broken = links(&text)
            .into_iter()
            .filter(|(_, link)| !leads_to_file(link, folder, &root));
        complaints.extend(broken.map(|(line, link)| {
            format!(
                "{}:{line}: the link to {link} leads nowhere",
                file.display()
            )
        }));
    }
    Ok(complaints)
}

/// Every link of a Markdown text with its line, code left out.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut fence = None;
    let mut links = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let start = line.trim_start();
        let mark = ["```", "~~~"]
            .into_iter()
            .find(|mark| start.starts_with(mark));
        match (fence, mark) {
            (None, Some(_)) => fence = mark,
            (Some(open), Some(mark)) if open == mark => fence = None,
            (Some(_), _) => {}
            (None, None) => links.extend(links_of_line(line).map(|link| (number, link))),
        }
    }
    links
}

fn links_of_line(line: &str) -> impl Iterator<Item = String> {
    let line = without_code(line);
    let mut links = Vec::new();
    for opening in ["](", "href=\"", "src=\""] {
        let closing = if opening == "](" { ')' } else { '"' };
        let after = line
            .match_indices(opening)
            .map(|(at, _)| &line[at + opening.len()..]);
        links.extend(
            after
                .filter_map(|rest| rest.split(closing).next())
                .map(destination),
        );
    }
    if line.trim_start().starts_with('[')
        && let Some((_, definition)) = line.split_once("]: ")
    {
        links.push(destination(definition));
    }
    links.into_iter()
}

/// The destination alone, out of `destination "title"` or `<destination>`.
fn destination(text: &str) -> String {
    let text = text.trim();
    let inside = text
        .strip_prefix('<')
        .and_then(|rest| rest.split('>').next());
    let plain = || text.split_whitespace().next().unwrap_or_default();
    inside.unwrap_or_else(plain).to_owned()
}

/// The line without what stands between backticks.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect()
}

fn leads_to_file(link: &str, folder: &Path, root: &Path) -> bool {
    let path = link.split(['#', '?']).next().unwrap_or_default();
    let has_scheme = path
        .split('/')
        .next()
        .is_some_and(|part| part.contains(':'));
    if has_scheme || path.starts_with("//") || (path.is_empty() && link.starts_with('#')) {
        return true;
    }
    let path = path.replace("%20", " ");
    // As on a code host, a leading slash is the root of the repository.
    let file = match path.strip_prefix('/') {
        Some(path) => root.join(path),
        None => root.join(folder).join(path),
    };
    !link.is_empty() && file.exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        links(text).into_iter().map(|(_, link)| link).collect()
    }

    #[test]
    fn links_of_every_shape_are_found() {
        let text = "See [a](a.md), ![b](b.png \"title\") and [c](<c d.md>).\n\
                    <img src=\"e.png\"> <a href=\"f.md\">\n\n[g]: g.md#part\n";
        assert_eq!(
            found(text),
            ["a.md", "b.png", "c d.md", "f.md", "e.png", "g.md#part"]
        );
    }

    #[test]
    fn code_holds_no_links() {
        assert!(found("`[a](a.md)`\n```rust\nlet x = [b](b.md);\n~~~\n```\n").is_empty());
        assert_eq!(found("```\n[a](a.md)\n```\n[b](b.md)"), ["b.md"]);
    }

    #[test]
    fn a_link_knows_its_line() {
        assert_eq!(links("one\n[two](two.md)"), [(2, "two.md".to_owned())]);
    }

    #[test]
    fn only_relative_links_need_a_file() {
        let root = shell::root();
        let leads = |link| leads_to_file(link, Path::new("crates/xtask"), &root);
        assert!(leads("https://example.com/a.md"));
        assert!(leads("mailto:someone@example.com"));
        assert!(leads("#a-part-of-this-page"));
        assert!(leads("src/links.rs#L1"));
        assert!(leads("../leasehold/"));
        assert!(leads("/Cargo.toml"));
        assert!(!leads("links.rs"));
        assert!(!leads("/src/links.rs"));
        assert!(!leads(""));
    }
}
