//! The headers, and how they are read.

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::error::{Error, ErrorKind, Result};
use crate::fence::{Fence, FenceKey};

/// The fence: `42-9f86d081884c7d65`.
pub const FENCE: HeaderName = HeaderName::from_static("leasehold-fence");
/// What is worked on, where the path does not say it.
pub const RESOURCE: HeaderName = HeaderName::from_static("leasehold-resource");
/// Proof that the fence is not made up.
pub const SIGNATURE: HeaderName = HeaderName::from_static("leasehold-signature");

/// The headers of a request to a fenced service, for this resource.
///
/// ```
/// # fn show(guard: &leasehold::Guard, request: &mut http::Request<()>) -> leasehold::Result<()> {
/// let headers = leasehold::http::fence_headers(guard.fence(), "accounts/17", None)?;
/// request.headers_mut().extend(headers);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// `Usage` if the resource has characters that a header cannot have.
pub fn fence_headers(fence: Fence, resource: &str, key: Option<&FenceKey>) -> Result<HeaderMap> {
    let value = |text: &str| {
        HeaderValue::from_str(text).map_err(|_| {
            let why = "only printable characters may be in a header";
            Error::new(ErrorKind::Usage, "name the resource", why)
        })
    };
    let mut headers = HeaderMap::with_capacity(3);
    headers.insert(FENCE, value(&fence.to_string())?);
    headers.insert(RESOURCE, value(resource)?);
    if let Some(key) = key {
        headers.insert(SIGNATURE, value(&key.sign(resource, fence))?);
    }
    Ok(headers)
}

/// What a request shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// Its fence.
    pub fence: Fence,
    /// The resource, if a header names it.
    pub resource: Option<String>,
    /// The proof, if there is one.
    pub signature: Option<String>,
}

impl Shown {
    /// Reads the headers of a request; none at all is `None`.
    ///
    /// # Errors
    /// With what is wrong, in one line.
    pub fn read(headers: &HeaderMap) -> Result<Option<Self>, String> {
        let Some(fence) = one(headers, &FENCE)? else {
            return Ok(None);
        };
        let fence: Fence = fence.parse().map_err(|error| format!("{FENCE}: {error}"))?;
        if fence.token.get() == 0 {
            return Err(format!("{FENCE}: a token is at least 1"));
        }
        Ok(Some(Self {
            fence,
            resource: one(headers, &RESOURCE)?.map(str::to_owned),
            signature: one(headers, &SIGNATURE)?.map(str::to_owned),
        }))
    }
}

/// The value of a header that may be there once.
fn one<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, String> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    if values.next().is_some() {
        return Err(format!("{name}: only one is allowed"));
    }
    let text = value.to_str();
    text.map(Some)
        .map_err(|_| format!("{name}: not readable text"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fence::Token;

    #[test]
    fn what_is_sent_is_what_is_read() {
        let fence = Fence {
            token: Token::new(7),
            holder: 9,
        };
        let key = FenceKey::new(b"0123456789abcdef").unwrap();
        let headers = fence_headers(fence, "accounts/1", Some(&key)).unwrap();
        let shown = Shown::read(&headers).unwrap().unwrap();
        assert_eq!(shown.fence, fence);
        assert_eq!(shown.resource.as_deref(), Some("accounts/1"));
        assert!(key.verify("accounts/1", fence, &shown.signature.unwrap()));
        assert!(fence_headers(fence, "a\nb", None).is_err());
        assert_eq!(Shown::read(&HeaderMap::new()), Ok(None));
    }

    #[test]
    fn what_is_no_fence_is_refused() {
        for text in ["", "7", "0-00000000000000aa", "-1-00000000000000aa", "x"] {
            let mut headers = HeaderMap::new();
            headers.insert(FENCE, HeaderValue::from_static(text));
            assert!(Shown::read(&headers).is_err(), "{text}");
        }
        let mut twice = HeaderMap::new();
        let value = HeaderValue::from_static("7-00000000000000aa");
        twice.append(FENCE, value.clone());
        twice.append(FENCE, value);
        assert!(Shown::read(&twice).unwrap_err().contains("only one"));
    }
}
