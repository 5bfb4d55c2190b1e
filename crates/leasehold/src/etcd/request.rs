//! The parts that transactions are made of.

use super::keys::Range;
use super::wire::compare::Target;
use super::wire::request_op::Request;
use super::wire::response_op::Response;
use super::wire::{
    Compare, DeleteRangeRequest, PutRequest, RangeRequest, RangeResponse, RequestOp, TxnRequest,
    TxnResponse,
};

const EQUAL: i32 = 0;
const LESS: i32 = 2;
const TARGET_CREATE: i32 = 1;
const TARGET_MOD: i32 = 2;
const TARGET_VALUE: i32 = 3;
const DESCENDING: i32 = 2;
const BY_CREATE: i32 = 2;

/// What must be so of a range of keys for a claim to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Guard {
    /// There is no key.
    Empty,
    /// No key was made after this revision.
    NothingNewSince(i64),
}

impl Guard {
    pub(super) fn on(self, range: &Range) -> Compare {
        let (result, revision) = match self {
            Self::Empty => (EQUAL, 0),
            Self::NothingNewSince(revision) => (LESS, revision + 1),
        };
        Compare {
            result,
            target: TARGET_CREATE,
            key: range.start.clone(),
            range_end: range.end.clone(),
            value: Some(Target::CreateRevision(revision)),
        }
    }
}

/// The key was made by this revision; 0 if it is not there.
pub(super) fn created_at(key: &[u8], revision: i64) -> Compare {
    Compare {
        result: EQUAL,
        target: TARGET_CREATE,
        key: key.to_vec(),
        range_end: Vec::new(),
        value: Some(Target::CreateRevision(revision)),
    }
}

/// The key was last written by this revision.
pub(super) fn written_at(key: &[u8], revision: i64) -> Compare {
    Compare {
        result: EQUAL,
        target: TARGET_MOD,
        key: key.to_vec(),
        range_end: Vec::new(),
        value: Some(Target::ModRevision(revision)),
    }
}

/// The key has this value. Ours have a ticket in it, so it is ours.
pub(super) fn has_value(key: &[u8], value: &[u8]) -> Compare {
    Compare {
        result: EQUAL,
        target: TARGET_VALUE,
        key: key.to_vec(),
        range_end: Vec::new(),
        value: Some(Target::Value(value.to_vec())),
    }
}

pub(super) fn put(key: &[u8], value: &[u8], lease: i64) -> RequestOp {
    let (key, value) = (key.to_vec(), value.to_vec());
    operation(Request::Put(PutRequest { key, value, lease }))
}

pub(super) fn delete(key: &[u8]) -> RequestOp {
    operation(Request::Delete(DeleteRangeRequest {
        key: key.to_vec(),
        range_end: Vec::new(),
    }))
}

pub(super) fn read(request: RangeRequest) -> RequestOp {
    operation(Request::Range(request))
}

fn operation(request: Request) -> RequestOp {
    RequestOp {
        request: Some(request),
    }
}

/// One key.
pub(super) fn one(key: &[u8]) -> RangeRequest {
    RangeRequest {
        key: key.to_vec(),
        ..RangeRequest::default()
    }
}

/// All keys of a range in the order of their names, at most so many; 0 for all.
/// An order of any other kind would make the server read the whole range.
pub(super) fn all(range: &Range, limit: i64) -> RangeRequest {
    RangeRequest {
        key: range.start.clone(),
        range_end: range.end.clone(),
        limit,
        ..RangeRequest::default()
    }
}

/// The latest key of a range that was made before this revision.
pub(super) fn last_before(range: &Range, revision: i64) -> RangeRequest {
    RangeRequest {
        limit: 1,
        sort_order: DESCENDING,
        sort_target: BY_CREATE,
        max_create_revision: revision - 1,
        ..all(range, 1)
    }
}

/// A transaction without conditions that changes nothing.
pub(super) fn look(reads: impl IntoIterator<Item = RangeRequest>) -> TxnRequest {
    TxnRequest {
        compare: Vec::new(),
        success: reads.into_iter().map(read).collect(),
        failure: Vec::new(),
    }
}

impl TxnResponse {
    /// At which state of the store it was made.
    pub(super) fn revision(&self) -> i64 {
        self.header.as_ref().map_or(0, |header| header.revision)
    }

    /// What the reads among its operations found, in their order.
    pub(super) fn into_reads(self) -> impl Iterator<Item = RangeResponse> {
        let answers = self.responses.into_iter();
        answers.filter_map(|answer| match answer.response {
            Some(Response::Range(range)) => Some(range),
            _ => None,
        })
    }
}
