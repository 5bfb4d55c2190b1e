//! A client of ZooKeeper as small as can be, to look at what is in the store and
//! to tamper with it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use super::connect;

/// A session with one request at a time.
#[derive(Debug)]
pub struct Client {
    stream: TcpStream,
    xid: i32,
    pub session: i64,
}

/// The server's number for what it refuses.
pub type Refused = i32;

impl Client {
    pub fn connect(port: u16) -> std::io::Result<Self> {
        Self::resume(port, 0, &[0; 16])
    }

    /// Takes over a session and ends it, in one breath: its owner takes it back
    /// at once.
    pub fn end_session(port: u16, session: i64, password: &[u8]) {
        let mut stream = connect(port).expect("the server listens");
        let close = [1_i32.to_be_bytes(), (-11_i32).to_be_bytes()].concat();
        let both = [greeting(session, password), bytes(&close)].concat();
        stream.write_all(&both).expect("it takes them");
        let _ = stream.read_to_end(&mut Vec::new());
    }

    fn resume(port: u16, session: i64, password: &[u8]) -> std::io::Result<Self> {
        let mut stream = connect(port)?;
        stream.set_read_timeout(Some(Duration::from_secs(15)))?;
        stream.write_all(&greeting(session, password))?;
        let welcome = frame(&mut stream)?;
        let session = i64::from_be_bytes(welcome[8..16].try_into().expect("eight bytes"));
        Ok(Self {
            stream,
            xid: 0,
            session,
        })
    }

    fn ask(&mut self, code: i32, body: &[u8]) -> Result<Vec<u8>, Refused> {
        self.xid += 1;
        let request = [&self.xid.to_be_bytes(), &code.to_be_bytes(), body].concat();
        let asked = self.stream.write_all(&bytes(&request));
        let answer = asked.and_then(|()| frame(&mut self.stream));
        let answer = answer.expect("the server answers");
        let error = i32::from_be_bytes(answer[12..16].try_into().expect("four bytes"));
        if error == 0 {
            Ok(answer[16..].to_vec())
        } else {
            Err(error)
        }
    }

    /// Makes a node, and says what it is called.
    pub fn create(&mut self, path: &str, flags: i32) -> Result<String, Refused> {
        self.create_for(path, flags, "world", "anyone")
    }

    pub fn create_for(
        &mut self,
        path: &str,
        flags: i32,
        scheme: &str,
        id: &str,
    ) -> Result<String, Refused> {
        let mut body = bytes(path.as_bytes());
        body.extend(bytes(b""));
        body.extend(1_i32.to_be_bytes());
        body.extend(31_i32.to_be_bytes());
        body.extend(bytes(scheme.as_bytes()));
        body.extend(bytes(id.as_bytes()));
        body.extend(flags.to_be_bytes());
        let answer = self.ask(1, &body)?;
        Ok(text(&answer).0)
    }

    pub fn delete(&mut self, path: &str) -> Result<(), Refused> {
        let mut body = bytes(path.as_bytes());
        body.extend((-1_i32).to_be_bytes());
        self.ask(2, &body).map(drop)
    }

    pub fn set(&mut self, path: &str, data: &[u8]) -> Result<(), Refused> {
        let mut body = bytes(path.as_bytes());
        body.extend(bytes(data));
        body.extend((-1_i32).to_be_bytes());
        self.ask(5, &body).map(drop)
    }

    pub fn delete_all(&mut self, path: &str) {
        for child in self.children(path).unwrap_or_default() {
            self.delete_all(&format!("{path}/{child}"));
        }
        // It may be gone already: a container, or of a session that ended.
        let _ = self.delete(path);
    }

    pub fn children(&mut self, path: &str) -> Result<Vec<String>, Refused> {
        let mut body = bytes(path.as_bytes());
        body.push(0);
        let answer = self.ask(8, &body)?;
        let count = i32::from_be_bytes(answer[..4].try_into().expect("four bytes"));
        let mut rest = &answer[4..];
        let mut children = Vec::new();
        for _ in 0..count {
            let (child, length) = text(rest);
            children.push(child);
            rest = &rest[length..];
        }
        Ok(children)
    }

    /// `czxid` and owner of a node.
    pub fn stat(&mut self, path: &str) -> Result<(i64, i64), Refused> {
        let mut body = bytes(path.as_bytes());
        body.push(0);
        let answer = self.ask(3, &body)?;
        let number = |at: usize| i64::from_be_bytes(answer[at..at + 8].try_into().expect("eight"));
        Ok((number(0), number(44)))
    }

    pub fn close(&mut self) {
        let _ = self.ask(-11, &[]);
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.xid += 1;
        let request = [self.xid.to_be_bytes(), (-11_i32).to_be_bytes()].concat();
        // Else the server ends the session by itself.
        let _ = self.stream.write_all(&bytes(&request));
    }
}

/// The frame that starts or resumes a session.
fn greeting(session: i64, password: &[u8]) -> Vec<u8> {
    let mut greeting = Vec::new();
    greeting.extend(0_i32.to_be_bytes());
    greeting.extend(0_i64.to_be_bytes());
    greeting.extend(10_000_i32.to_be_bytes());
    greeting.extend(session.to_be_bytes());
    greeting.extend(bytes(password));
    greeting.push(0);
    bytes(&greeting)
}

fn bytes(bytes: &[u8]) -> Vec<u8> {
    let length = i32::try_from(bytes.len()).expect("it is short");
    [&length.to_be_bytes(), bytes].concat()
}

fn text(from: &[u8]) -> (String, usize) {
    let length = i32::from_be_bytes(from[..4].try_into().expect("four bytes"));
    let end = 4 + usize::try_from(length).expect("it is not negative");
    (String::from_utf8_lossy(&from[4..end]).into_owned(), end)
}

fn frame(stream: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let length = usize::try_from(i32::from_be_bytes(length)).expect("it is not negative");
    let mut frame = vec![0; length];
    stream.read_exact(&mut frame)?;
    Ok(frame)
}
