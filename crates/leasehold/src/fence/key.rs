//! Fences that cannot be made up.
//!
//! Whoever may show a fence could show a huge one, and shut everybody out. So a
//! holder signs it with a key that it shares with the resource (HMAC-SHA-256),
//! for one resource.

use std::fmt;
use std::path::Path;

use hmac::{Hmac, Mac};
use sha2::Sha256;

use super::Fence;
use crate::error::{Error, ErrorKind, Result};

const SHORTEST: usize = 16;
const LONGEST: u64 = 4096;

/// A secret that holders and resources share.
#[derive(Clone)]
pub struct FenceKey(Hmac<Sha256>);

impl FenceKey {
    /// A key of at least 16 bytes, which should be random.
    ///
    /// # Errors
    /// `Config` if it is shorter.
    pub fn new(secret: &[u8]) -> Result<Self> {
        let refuse = |why| Error::new(ErrorKind::Config, "read the key", why);
        if secret.len() < SHORTEST {
            let found = secret.len();
            return Err(refuse(format!(
                "{found} bytes; at least {SHORTEST} are needed, such as `openssl rand -hex 32` makes"
            )));
        }
        let mac = Hmac::new_from_slice(secret).map_err(|error| refuse(error.to_string()))?;
        Ok(Self(mac))
    }

    /// Reads a key from a file; line ends at its end do not count.
    ///
    /// # Errors
    /// `Config` if there is none, or as for [`new`](Self::new).
    pub fn from_file(path: &Path) -> Result<Self> {
        let doing = || format!("read the key {}", path.display());
        let refuse = |why: String| Error::new(ErrorKind::Config, doing(), why);
        let metadata = path.metadata().map_err(|error| refuse(error.to_string()))?;
        if metadata.len() > LONGEST {
            return Err(refuse(format!("longer than {LONGEST} bytes; is it a key?")));
        }
        let secret = std::fs::read(path).map_err(|error| refuse(error.to_string()))?;
        Self::new(secret.trim_ascii_end())
    }

    /// What proves that a holder of this key made the fence for the resource.
    pub fn sign(&self, resource: &str, fence: Fence) -> String {
        let signature = self.mac(resource, fence).finalize().into_bytes();
        signature.iter().fold(String::new(), |mut text, byte| {
            _ = fmt::Write::write_fmt(&mut text, format_args!("{byte:02x}"));
            text
        })
    }

    /// Whether the signature is one of this key for just that.
    pub fn verify(&self, resource: &str, fence: Fence, signature: &str) -> bool {
        let digit = |digit: u8| char::from(digit).to_digit(16);
        let byte = |pair: &[u8]| match *pair {
            [high, low] => u8::try_from(digit(high)? * 16 + digit(low)?).ok(),
            _ => None,
        };
        let bytes: Option<Vec<u8>> = signature.as_bytes().chunks(2).map(byte).collect();
        // Compared in constant time.
        bytes.is_some_and(|bytes| self.mac(resource, fence).verify_slice(&bytes).is_ok())
    }

    fn mac(&self, resource: &str, fence: Fence) -> Hmac<Sha256> {
        // The fence is first and has a fixed alphabet: no two pairs look alike.
        let mac = self.0.clone();
        mac.chain_update(format!("leasehold-fence 1\n{fence}\n{resource}"))
    }
}

impl fmt::Debug for FenceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FenceKey(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fence::Token;

    #[test]
    fn a_signature_is_good_for_one_key_one_resource_and_one_fence() {
        let key = FenceKey::new(b"0123456789abcdef").unwrap();
        let other = FenceKey::new(b"0123456789abcdeg").unwrap();
        let fence = Fence {
            token: Token::new(7),
            holder: 1,
        };
        let huge = Fence {
            token: Token::new(u64::MAX),
            ..fence
        };
        let signature = key.sign("accounts/1", fence);
        assert!(key.verify("accounts/1", fence, &signature));
        assert!(!other.verify("accounts/1", fence, &signature));
        assert!(!key.verify("accounts/2", fence, &signature));
        assert!(!key.verify("accounts/1", huge, &signature));
        for wrong in ["", "0", &signature[..62], "zz", &format!("{signature}00")] {
            assert!(!key.verify("accounts/1", fence, wrong), "{wrong}");
        }
    }

    #[test]
    fn a_short_key_is_refused_and_none_is_shown() {
        let error = FenceKey::new(b"hunter2").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        let key = FenceKey::new(b"correct horse battery").unwrap();
        assert_eq!(format!("{key:?}"), "FenceKey(..)");
    }
}
