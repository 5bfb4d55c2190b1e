//! Who made a claim: for people to read, and for re-entering a lock.

use std::fmt;
use std::sync::Arc;

/// Who makes claims: a host, a process and a label.
///
/// People see it in listings. A [reentrant](crate::Session::reentrant) lock also
/// goes by it: clones of one owner are the same owner, two owners made by two
/// calls never are.
#[derive(Debug, Clone)]
pub struct Owner {
    host: Arc<str>,
    pid: u32,
    label: Arc<str>,
    identity: Arc<()>,
}

impl Owner {
    /// A new owner in this process. The label is whatever you want to see in a
    /// listing; it may be empty.
    pub fn new(label: impl AsRef<str>) -> Self {
        Self::seen(host_name(), std::process::id(), label)
    }

    /// An owner as a store describes it.
    pub fn seen(host: impl AsRef<str>, pid: u32, label: impl AsRef<str>) -> Self {
        Self {
            host: host.as_ref().into(),
            pid,
            label: label.as_ref().into(),
            identity: Arc::new(()),
        }
    }

    /// The machine's name.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The process.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The label.
    pub fn label(&self) -> &str {
        &self.label
    }

    pub(crate) fn shared_label(&self) -> Arc<str> {
        self.label.clone()
    }

    /// Whether the two are clones of one owner.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.identity, &other.identity)
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.pid)?;
        if !self.label.is_empty() {
            write!(f, " ({})", self.label)?;
        }
        Ok(())
    }
}

fn host_name() -> String {
    #[cfg(unix)]
    let name = rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned();
    #[cfg(not(unix))]
    let name = std::env::var("COMPUTERNAME").unwrap_or_default();
    name
}
