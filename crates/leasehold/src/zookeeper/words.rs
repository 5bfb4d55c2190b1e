//! What a server says of itself, to four letters, outside of any session.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::fault::Refusal;

const LONGEST: Duration = Duration::from_secs(1);

/// A server as it describes itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Said {
    /// Its version, and `standalone`, `leader`, `follower` or `observer`.
    Serves { version: String, mode: String },
    /// It has no majority.
    ServesNobody,
    /// It does not answer to the word, which is allowed.
    Nothing,
}

/// Asks for version and mode.
pub(super) async fn srvr(server: &str) -> Result<Said, Refusal> {
    let asked = tokio::time::timeout(LONGEST, ask(server)).await;
    let unreachable = |why: String| Refusal::Unreachable(format!("{server}: {why}"));
    match asked {
        Ok(Ok(text)) => Ok(read(&text)),
        Ok(Err(error)) => Err(unreachable(error.to_string())),
        Err(_) => Err(unreachable("no answer".into())),
    }
}

/// Why a server closed a connection before it said anything.
pub(super) async fn why_closed(server: &str) -> Refusal {
    let why = match srvr(server).await {
        Ok(Said::ServesNobody) => "it has no majority, and serves nobody".to_owned(),
        Ok(Said::Serves { mode, .. }) if mode == "read-only" => {
            "it has no majority, and is read-only".to_owned()
        }
        Ok(Said::Serves { mode, .. }) => format!("it ({mode}) closed the connection"),
        Ok(Said::Nothing) | Err(_) => {
            "it closed the connection; is it ZooKeeper, and a port without TLS?".to_owned()
        }
    };
    Refusal::Unreachable(format!("{server}: {why}"))
}

async fn ask(server: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(server).await?;
    stream.write_all(b"srvr").await?;
    let mut text = Vec::new();
    // Some servers close so fast that it is an error; what came before counts.
    let _ = stream.read_to_end(&mut text).await;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

fn read(text: &str) -> Said {
    if text.contains("not currently serving") {
        return Said::ServesNobody;
    }
    let line = |start: &str| {
        let mut lines = text.lines().filter_map(|line| line.strip_prefix(start));
        lines.next().map(str::trim)
    };
    match (line("Zookeeper version:"), line("Mode:")) {
        (Some(version), Some(mode)) => {
            let end = version.find(['-', ',', ' ']).unwrap_or(version.len());
            Said::Serves {
                version: version[..end].to_owned(),
                mode: mode.to_owned(),
            }
        }
        _ => Said::Nothing,
    }
}

/// Whether the version is one that we can work with; if it cannot be read, we
/// hope.
pub(super) fn is_new_enough(version: &str) -> bool {
    let mut parts = version.split('.').map(str::parse::<u32>);
    match (parts.next(), parts.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) >= (3, 5),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_and_mode_are_read() {
        let text = "Zookeeper version: 3.8.0-5a02a05, built on 2022\nLatency\nMode: follower\n";
        let said = Said::Serves {
            version: "3.8.0".into(),
            mode: "follower".into(),
        };
        assert_eq!(read(text), said);
        assert_eq!(
            read("This ZooKeeper instance is not currently serving requests\n"),
            Said::ServesNobody
        );
        let off = "srvr is not executed because it is not in the whitelist.\n";
        assert_eq!(read(off), Said::Nothing);
        assert!(is_new_enough("3.10.1") && is_new_enough("4.0") && is_new_enough("?"));
        assert!(!is_new_enough("3.4.13"));
    }
}
