//! Which resource a path is about.

use std::sync::Arc;

use percent_encoding::percent_decode_str;

/// The patterns of all resources.
#[derive(Debug, Clone)]
pub(super) struct Resources {
    router: Arc<matchit::Router<String>>,
}

impl Resources {
    pub(super) fn new(patterns: &[String]) -> Result<Self, String> {
        let mut router = matchit::Router::new();
        for pattern in patterns {
            if !pattern.starts_with('/') {
                return Err(format!("`{pattern}` does not begin with /"));
            }
            let inserted = router.insert(pattern, pattern.clone());
            inserted.map_err(|error| format!("`{pattern}`: {error}"))?;
        }
        // The rest may be nothing. Another pattern may say so already.
        for (whole, _) in patterns.iter().filter_map(|it| it.split_once("/{*")) {
            _ = router.insert(whole, whole.to_owned());
            _ = router.insert(format!("{whole}/"), whole.to_owned());
        }
        let router = Arc::new(router);
        Ok(Self { router })
    }

    /// The pattern, with what the path has in the place of its parts, and
    /// without its rest: `accounts/17`. None for a path that a service may take
    /// for another one, since two names would have two marks.
    pub(super) fn of(&self, path: &str) -> Option<String> {
        let path = percent_decode_str(path).decode_utf8().ok()?;
        let is_plain = |part: &str| !matches!(part, "" | "." | "..");
        let parts = path.strip_prefix('/')?;
        let is_tame = parts.trim_end_matches('/').split('/').all(is_plain);
        if !is_tame || path.contains(['\\', '%', ';']) || path.contains(char::is_control) {
            return None;
        }
        let matched = self.router.at(&path).ok()?;
        let mut resource = String::new();
        let mut rest = &**matched.value;
        while let Some((text, part)) = rest.split_once('{') {
            let (name, after) = part.split_once('}')?;
            resource.push_str(text);
            if !name.starts_with('*') {
                resource.push_str(matched.params.get(name)?);
            }
            rest = after;
        }
        resource.push_str(rest);
        Some(resource.trim_matches('/').to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(path: &str) -> Option<String> {
        let patterns = ["/accounts/{id}/{*rest}", "/printer", "/a/{x}/{y}"];
        Resources::new(&patterns.map(str::to_owned))
            .unwrap()
            .of(path)
    }

    #[test]
    fn a_path_and_all_that_is_below_it_are_one_resource() {
        for path in [
            "/accounts/17",
            "/accounts/17/",
            "/accounts/17/a",
            "/accounts/17/a/b",
        ] {
            assert_eq!(of(path).as_deref(), Some("accounts/17"), "{path}");
        }
        assert_eq!(of("/printer").as_deref(), Some("printer"));
        assert_eq!(of("/a/{y}/7").as_deref(), Some("a/{y}/7"));
        assert_eq!(of("/other"), None);
    }

    #[test]
    fn another_spelling_is_the_same_resource_or_none() {
        assert_eq!(of("/accounts/%31%37").as_deref(), Some("accounts/17"));
        for path in [
            "/accounts/17/../18",
            "/accounts/%2e%2e/18",
            "//accounts/17",
            "/accounts//17",
            "/accounts/1%2f7/%2e%2e",
            "/accounts/17%2500",
            "/accounts/17;x=1",
            "/accounts/17%0a",
            "/accounts\\17",
        ] {
            assert_eq!(of(path), None, "{path}");
        }
    }

    #[test]
    fn a_pattern_that_makes_no_sense_is_refused() {
        for pattern in ["accounts/{id}", "/{*all}/x", "/{a"] {
            assert!(Resources::new(&[pattern.to_owned()]).is_err(), "{pattern}");
        }
    }
}
