//! The barest client: it makes load, and should cost little beside what it
//! measures.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::exit::{self, Failure};

/// A connection that is kept.
pub(super) struct Connection {
    stream: TcpStream,
    answer: Vec<u8>,
}

impl Connection {
    pub(super) async fn open(address: SocketAddr) -> Result<Self, Failure> {
        let stream = TcpStream::connect(address)
            .await
            .map_err(|error| broken(&error))?;
        stream.set_nodelay(true).map_err(|error| broken(&error))?;
        Ok(Self {
            stream,
            answer: Vec::with_capacity(4096),
        })
    }

    /// Sends a request and reads its answer, which must be 200.
    pub(super) async fn get(&mut self, request: &[u8]) -> Result<(), Failure> {
        self.stream
            .write_all(request)
            .await
            .map_err(|error| broken(&error))?;
        self.answer.clear();
        while !is_whole(&self.answer) {
            let read = self.stream.read_buf(&mut self.answer).await;
            if read.map_err(|error| broken(&error))? == 0 {
                return Err(broken(&"it breaks off"));
            }
        }
        if self.answer.starts_with(b"HTTP/1.1 200") {
            return Ok(());
        }
        Err(broken(&String::from_utf8_lossy(&self.answer)))
    }
}

/// Whether all that its head announces is there.
fn is_whole(answer: &[u8]) -> bool {
    let Some(end) = answer.windows(4).position(|part| part == b"\r\n\r\n") else {
        return false;
    };
    let head = String::from_utf8_lossy(&answer[..end]).to_ascii_lowercase();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    let length: usize = length.and_then(|length| length.parse().ok()).unwrap_or(0);
    answer.len() >= end + 4 + length
}

fn broken(error: &dyn std::fmt::Display) -> Failure {
    Failure::new(
        exit::UNAVAILABLE,
        format!("ask a server of our own: {error}"),
    )
}
