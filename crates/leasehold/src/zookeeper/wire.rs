//! ZooKeeper's messages, as far as we use them: big-endian numbers, texts and
//! bytes with their length before them.

use super::fault::Refusal;

/// A session's number and the proof that it is ours.
#[derive(Clone, Default)]
pub(super) struct Pass {
    pub(super) session: i64,
    pub(super) password: Vec<u8>,
}

/// What the server says to a session that starts or moves to it.
pub(super) struct Welcome {
    /// In milliseconds; 0 or less if the session is over.
    pub(super) timeout: i32,
    pub(super) pass: Pass,
}

/// What a node is, beside its data.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Stat {
    /// The transaction that made the node.
    pub(super) czxid: i64,
    /// When it was made, in milliseconds since 1970 by the leader's clock.
    pub(super) ctime: i64,
    /// When its data was written last, by the same clock.
    pub(super) mtime: i64,
    /// The session that it goes with, 0 if none.
    pub(super) owner: i64,
    /// How often its data was written since then.
    pub(super) version: i32,
    /// How often its children came and went since then.
    pub(super) child_changes: i32,
    /// How many there are.
    pub(super) children: i32,
    /// The transaction that made or deleted the last of them.
    pub(super) pzxid: i64,
}

/// How a node is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Persistent,
    /// It goes with the session.
    Ephemeral,
    /// The same, and the server puts a number behind its name.
    EphemeralSequential,
    /// The server deletes it some time after its last child.
    Container,
}

/// One request. Paths are whole, from the root of the server.
#[derive(Debug, Clone)]
pub(super) enum Request {
    Create {
        path: String,
        data: Vec<u8>,
        mode: Mode,
        is_private: bool,
    },
    Delete {
        path: String,
    },
    Exists {
        path: String,
        watch: bool,
    },
    Data {
        path: String,
        watch: bool,
    },
    Children {
        path: String,
        watch: bool,
    },
    Sync {
        path: String,
    },
    /// Writes the data of a node that has this version.
    Write {
        path: String,
        data: Vec<u8>,
        version: i32,
    },
    /// Refused unless the node is there with this version, or any if it is -1.
    /// Only among others.
    Check {
        path: String,
        version: i32,
    },
    /// All of them or none.
    Multi(Vec<Request>),
    Ping,
    Auth {
        user: Vec<u8>,
    },
    Close,
}

/// The answer to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reply {
    Created { path: String, stat: Stat },
    Stat(Stat),
    Data(Vec<u8>, Stat),
    Children(Vec<String>),
    Done,
}

/// What a frame from the server is about.
pub(super) enum Frame<'a> {
    Reply {
        xid: i32,
        error: i32,
        body: &'a [u8],
    },
    /// What a watch was for has happened to this path.
    Event { path: String },
}

pub(super) const PING_XID: i32 = -2;
pub(super) const AUTH_XID: i32 = -4;
const EVENT_XID: i32 = -1;
/// Nothing that we ask for comes near this; another protocol's first bytes do.
const LARGEST: usize = 64 << 20;

impl Request {
    fn code(&self) -> i32 {
        match self {
            Self::Create { mode, .. } => match mode {
                Mode::Container => 19,
                Mode::Persistent | Mode::Ephemeral | Mode::EphemeralSequential => 15,
            },
            Self::Delete { .. } => 2,
            Self::Exists { .. } => 3,
            Self::Data { .. } => 4,
            Self::Write { .. } => 5,
            Self::Check { .. } => 13,
            Self::Sync { .. } => 9,
            Self::Ping => 11,
            Self::Children { .. } => 8,
            Self::Multi(_) => 14,
            Self::Auth { .. } => 100,
            Self::Close => -11,
        }
    }

    /// The frame to send.
    pub(super) fn frame(&self, xid: i32) -> Vec<u8> {
        let mut out = vec![0; 4];
        number(&mut out, xid);
        number(&mut out, self.code());
        self.body(&mut out);
        sealed(out)
    }

    fn body(&self, out: &mut Vec<u8>) {
        match self {
            Self::Create {
                path,
                data,
                mode,
                is_private,
            } => {
                text(out, path);
                bytes(out, data);
                number(out, 1);
                number(out, 31);
                let (scheme, id) = match is_private {
                    true => ("auth", ""),
                    false => ("world", "anyone"),
                };
                text(out, scheme);
                text(out, id);
                let flags = match mode {
                    Mode::Persistent => 0,
                    Mode::Ephemeral => 1,
                    Mode::EphemeralSequential => 3,
                    Mode::Container => 4,
                };
                number(out, flags);
            }
            Self::Delete { path } => {
                text(out, path);
                number(out, -1);
            }
            Self::Exists { path, watch }
            | Self::Data { path, watch }
            | Self::Children { path, watch } => {
                text(out, path);
                out.push(u8::from(*watch));
            }
            Self::Sync { path } => text(out, path),
            Self::Write {
                path,
                data,
                version,
            } => {
                text(out, path);
                bytes(out, data);
                number(out, *version);
            }
            Self::Check { path, version } => {
                text(out, path);
                number(out, *version);
            }
            Self::Multi(requests) => {
                for request in requests {
                    part(out, request.code(), false);
                    request.body(out);
                }
                part(out, -1, true);
            }
            Self::Auth { user } => {
                number(out, 0);
                text(out, "digest");
                bytes(out, user);
            }
            Self::Ping | Self::Close => {}
        }
    }

    /// Reads the answer to this request, which had no error.
    pub(super) fn read(&self, body: &[u8]) -> Result<Reply, Refusal> {
        let mut body = Body(body);
        Ok(match self {
            Self::Create { .. } => Reply::Created {
                path: body.text()?,
                stat: body.stat()?,
            },
            Self::Exists { .. } | Self::Write { .. } => Reply::Stat(body.stat()?),
            Self::Data { .. } => Reply::Data(body.bytes()?, body.stat()?),
            Self::Children { .. } => {
                let count = usize::try_from(body.number()?).unwrap_or(0);
                let children: Result<_, _> = (0..count).map(|_| body.text()).collect();
                Reply::Children(children?)
            }
            Self::Multi(_) => {
                body.first_error()?;
                Reply::Done
            }
            Self::Delete { .. } | Self::Sync { .. } | Self::Check { .. } => Reply::Done,
            Self::Ping | Self::Auth { .. } | Self::Close => Reply::Done,
        })
    }
}

/// The frame with which a session starts, or moves to another server.
pub(super) fn greeting(pass: &Pass, timeout: i32, last_zxid: i64) -> Vec<u8> {
    let mut out = vec![0; 4];
    number(&mut out, 0);
    out.extend(last_zxid.to_be_bytes());
    number(&mut out, timeout);
    out.extend(pass.session.to_be_bytes());
    let password = match pass.password.is_empty() {
        true => [0; 16].as_slice(),
        false => &pass.password,
    };
    bytes(&mut out, password);
    // A server without a majority is of no use to us.
    out.push(0);
    sealed(out)
}

pub(super) fn read_welcome(body: &[u8]) -> Result<Welcome, Refusal> {
    let mut body = Body(body);
    body.number()?;
    Ok(Welcome {
        timeout: body.number()?,
        pass: Pass {
            session: body.long()?,
            password: body.bytes()?,
        },
    })
}

/// What a frame says, and up to which transaction the server has come.
pub(super) fn read_frame(frame: &[u8]) -> Result<(Frame<'_>, i64), Refusal> {
    let mut body = Body(frame);
    let (xid, zxid, error) = (body.number()?, body.long()?, body.number()?);
    if xid != EVENT_XID {
        let body = body.0;
        return Ok((Frame::Reply { xid, error, body }, zxid));
    }
    let (_kind, _state) = (body.number()?, body.number()?);
    let path = body.text()?;
    Ok((Frame::Event { path }, zxid))
}

/// The first whole frame in what was received, and how long it is.
pub(super) fn first_frame(received: &[u8]) -> Result<Option<&[u8]>, Refusal> {
    let Some((length, rest)) = received.split_first_chunk::<4>() else {
        return Ok(None);
    };
    let length = usize::try_from(i32::from_be_bytes(*length)).map_err(|_| Refusal::Garbled)?;
    if length > LARGEST {
        return Err(Refusal::Garbled);
    }
    Ok(rest.get(..length))
}

/// How much the first frame takes, whether it has arrived or not; 0 if that is
/// not known, or it is none.
pub(super) fn first_length(received: &[u8]) -> usize {
    let length = received.first_chunk::<4>();
    let length = length.and_then(|length| usize::try_from(i32::from_be_bytes(*length)).ok());
    let length = length.filter(|length| *length <= LARGEST);
    length.map_or(0, |length| 4 + length)
}

fn sealed(mut out: Vec<u8>) -> Vec<u8> {
    let length = u32::try_from(out.len() - 4).unwrap_or(u32::MAX);
    out[..4].copy_from_slice(&length.to_be_bytes());
    out
}

fn part(out: &mut Vec<u8>, code: i32, is_last: bool) {
    number(out, code);
    out.push(u8::from(is_last));
    number(out, -1);
}

fn number(out: &mut Vec<u8>, number: i32) {
    out.extend(number.to_be_bytes());
}

fn bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    number(out, i32::try_from(bytes.len()).unwrap_or(i32::MAX));
    out.extend(bytes);
}

fn text(out: &mut Vec<u8>, text: &str) {
    bytes(out, text.as_bytes());
}

/// What is left to read.
struct Body<'a>(&'a [u8]);

impl Body<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Refusal> {
        let (first, rest) = self.0.split_first_chunk::<N>().ok_or(Refusal::Garbled)?;
        self.0 = rest;
        Ok(*first)
    }

    fn number(&mut self) -> Result<i32, Refusal> {
        self.take().map(i32::from_be_bytes)
    }

    fn long(&mut self) -> Result<i64, Refusal> {
        self.take().map(i64::from_be_bytes)
    }

    fn bytes(&mut self) -> Result<Vec<u8>, Refusal> {
        // A length of -1 means none at all.
        let length = usize::try_from(self.number()?).unwrap_or(0);
        let (first, rest) = self.0.split_at_checked(length).ok_or(Refusal::Garbled)?;
        self.0 = rest;
        Ok(first.to_vec())
    }

    fn text(&mut self) -> Result<String, Refusal> {
        let bytes = self.bytes()?;
        String::from_utf8(bytes).map_err(|_| Refusal::Garbled)
    }

    fn stat(&mut self) -> Result<Stat, Refusal> {
        let (czxid, _mzxid, ctime, mtime) =
            (self.long()?, self.long()?, self.long()?, self.long()?);
        let version = self.number()?;
        let (child_changes, _acl_version) = (self.number()?, self.number()?);
        let owner = self.long()?;
        let (_length, children, pzxid) = (self.number()?, self.number()?, self.long()?);
        Ok(Stat {
            czxid,
            ctime,
            mtime,
            owner,
            version,
            child_changes,
            children,
            pzxid,
        })
    }

    /// Whether one of many refused: then nothing was done, and the others only
    /// say that they were undone.
    fn first_error(&mut self) -> Result<(), Refusal> {
        const UNDONE: i32 = -2;
        loop {
            let (kind, is_last, error) = (self.number()?, self.take::<1>()?, self.number()?);
            match kind {
                _ if is_last != [0] => return Ok(()),
                -1 => {
                    let told = self.number()?;
                    let error = if told == 0 { error } else { told };
                    if error != 0 && error != UNDONE {
                        return Err(Refusal::of(error));
                    }
                }
                1 => drop(self.text()?),
                5 => drop(self.stat()?),
                15 | 19 => {
                    self.text()?;
                    self.stat()?;
                }
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_a_frame_with_its_length_before_it() {
        let request = Request::Exists {
            path: "/a".into(),
            watch: true,
        };
        let frame = request.frame(7);
        let expected = [
            0, 0, 0, 15, 0, 0, 0, 7, 0, 0, 0, 3, 0, 0, 0, 2, b'/', b'a', 1,
        ];
        assert_eq!(frame, expected);
        assert_eq!(first_frame(&frame).unwrap().unwrap().len(), 15);
        assert!(first_frame(&frame[..18]).unwrap().is_none());
    }

    #[test]
    fn another_protocol_is_not_taken_for_a_frame() {
        assert!(first_frame(b"HTTP/1.1 400 Bad Request").is_err());
        assert!(first_frame(&[0x15, 3, 3, 0, 2, 2]).is_err());
        assert!(read_frame(&[0, 0]).is_err());
    }

    #[test]
    fn a_list_is_read_back() {
        let mut body = Vec::new();
        number(&mut body, 2);
        text(&mut body, "a");
        text(&mut body, "é");
        let request = Request::Children {
            path: "/".into(),
            watch: false,
        };
        let reply = request.read(&body).unwrap();
        assert_eq!(reply, Reply::Children(vec!["a".into(), "é".into()]));
        assert!(request.read(&body[..9]).is_err());
    }
}
