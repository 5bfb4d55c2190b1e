//! Objects in a bucket that refuse a stale holder.
//!
//! The mark is the first line of the object itself, `leasehold-fence 1 FENCE
//! WORD`, and every write is conditional on the version that was seen last. The
//! mark could not be kept beside: some stores' versions are a digest of the
//! content alone, and then a content that comes back would let an old writer in.
//! With a word inside that is drawn for each write no two writes are the same
//! bytes, nor are two of one hold.

use std::fmt;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use object_store::path::Path;
use object_store::{
    Error as StoreError, ObjectStore, ObjectStoreExt as _, PutMode, PutOptions, PutResult,
    UpdateVersion,
};

use super::{Fence, Policy, mark};
use crate::error::{Effect, Error, ErrorKind, Result};
use crate::random::random_u64;

const KIND: &str = "leasehold-fence 1 ";
/// No first line of ours is longer.
const LONGEST_LINE: usize = 80;
/// How often a claim begins anew when another came between. Each time another
/// holder has got further.
const ROUNDS: usize = 32;

/// An object of which only the newest holder reads and writes.
///
/// The store must be able to write on a condition (`PutMode::Update`): S3, GCS,
/// Azure and what speaks like them.
///
/// ```no_run
/// # use std::sync::Arc;
/// # async fn show(guard: &leasehold::Guard, bucket: Arc<dyn object_store::ObjectStore>)
/// # -> leasehold::Result<()> {
/// let report = leasehold::fence::FencedObject::new(bucket, "reports/today");
/// let mut report = report.claim(guard.fence()).await?; // before anything is read
/// let longer = [&report.content()[..], b"one more\n"].concat();
/// report.put(longer).await // `Stale` if another has claimed it since
/// # }
/// ```
#[derive(Clone)]
pub struct FencedObject {
    store: Arc<dyn ObjectStore>,
    path: Path,
    policy: Policy,
}

impl FencedObject {
    /// The object need not exist yet. One that others wrote is taken over as it
    /// is, and from then on begins with the mark.
    pub fn new(store: Arc<dyn ObjectStore>, path: impl Into<Path>) -> Self {
        Self {
            store,
            path: path.into(),
            policy: Policy::default(),
        }
    }

    /// Which claims are accepted. Everyone who uses the object must agree.
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Raises the mark and reads the content, in one step for everybody else.
    ///
    /// # Errors
    /// `Stale` if another has come later; `Usage` if the lock has no ordered
    /// token; `Unsupported` if the store cannot write on a condition; else as
    /// the store says.
    ///
    /// # Cancel safety
    /// The mark may have been raised.
    pub async fn claim(&self, fence: Fence) -> Result<ClaimedObject> {
        if self.policy == Policy::Ordered && fence.token.get() == 0 {
            let why = "this lock has no ordered token; choose `Policy::Exact`";
            return Err(Error::new(ErrorKind::Usage, self.doing("claim"), why));
        }
        for _ in 0..ROUNDS {
            let found = self.read("claim").await?;
            let claimed = self.policy.claim(found.mark, fence);
            claimed.map_err(|stale| Error::stale(stale, self.doing("claim")))?;
            // Also if the mark is ours: a write of this hold that was given up may
            // still be on its way, and must not come after what is read now.
            let whole = seal(fence, random_u64(), &found.content);
            match self.write(found.version, whole).await {
                Ok(written) => {
                    return Ok(ClaimedObject {
                        object: self.clone(),
                        fence,
                        version: written.into(),
                        content: found.content,
                    });
                }
                // Another came between: look again who.
                Err(StoreError::Precondition { .. } | StoreError::AlreadyExists { .. }) => {}
                Err(error) => return Err(self.trouble("claim", error)),
            }
        }
        let why = "others claim it again and again";
        let error = Error::new(ErrorKind::Unavailable, self.doing("claim"), why);
        Err(error.effect_is(Effect::Unknown))
    }

    async fn read(&self, doing: &str) -> Result<Found> {
        let got = match self.store.get(&self.path).await {
            Ok(got) => got,
            Err(StoreError::NotFound { .. }) => return Ok(Found::default()),
            Err(error) => return Err(self.trouble(doing, error)),
        };
        let version = UpdateVersion {
            e_tag: got.meta.e_tag.clone(),
            version: got.meta.version.clone(),
        };
        let whole = got.bytes().await;
        let whole = whole.map_err(|error| self.trouble(doing, error))?;
        let (sealed, content) = open(&whole).map_err(|why| {
            let error = Error::new(ErrorKind::Config, self.doing(doing), why);
            error.effect_is(Effect::None)
        })?;
        Ok(Found {
            version: Some(version),
            mark: sealed.map(|(mark, _)| mark),
            word: sealed.map(|(_, word)| word),
            content,
        })
    }

    /// Writes unless another has written since that version.
    async fn write(
        &self,
        version: Option<UpdateVersion>,
        whole: Bytes,
    ) -> Result<PutResult, StoreError> {
        let mode = version.map_or(PutMode::Create, PutMode::Update);
        let options = PutOptions::from(mode);
        self.store.put_opts(&self.path, whole.into(), options).await
    }

    fn doing(&self, what: &str) -> String {
        format!("{what} {}", self.path)
    }

    fn trouble(&self, doing: &str, error: StoreError) -> Error {
        let (kind, effect) = match &error {
            StoreError::PermissionDenied { .. } | StoreError::Unauthenticated { .. } => {
                (ErrorKind::Denied, Effect::None)
            }
            StoreError::NotImplemented { .. } | StoreError::NotSupported { .. } => {
                (ErrorKind::Unsupported, Effect::None)
            }
            StoreError::InvalidPath { .. } => (ErrorKind::Usage, Effect::None),
            _ => (ErrorKind::Unavailable, Effect::Unknown),
        };
        let why = error.to_string();
        let error = Error::new(kind, self.doing(doing), why).from_source(error);
        error.effect_is(effect)
    }
}

impl fmt::Debug for FencedObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FencedObject")
            .field("path", &self.path)
            .field("policy", &self.policy)
            .finish_non_exhaustive()
    }
}

/// What there is.
#[derive(Default)]
struct Found {
    /// None if there is no object.
    version: Option<UpdateVersion>,
    mark: Option<Fence>,
    /// What the last write was told apart by.
    word: Option<u64>,
    content: Bytes,
}

/// An object under a claim. A write passes only while the claim is the newest.
#[derive(Debug)]
pub struct ClaimedObject {
    object: FencedObject,
    fence: Fence,
    version: UpdateVersion,
    content: Bytes,
}

impl ClaimedObject {
    /// Whose claim it is.
    pub fn fence(&self) -> Fence {
        self.fence
    }

    /// The content as it was when it was claimed, or as we wrote it since.
    pub fn content(&self) -> &Bytes {
        &self.content
    }

    /// Puts this in place of the content.
    ///
    /// # Errors
    /// As for [`FencedObject::claim`]. `Unavailable` without an effect if this
    /// same hold has claimed or written it elsewhere since, which may be a write
    /// of its own that was given up: claim again and read.
    ///
    /// # Cancel safety
    /// It may have been written; claim again before the next write.
    pub async fn put(&mut self, content: impl Into<Bytes>) -> Result<()> {
        let content = content.into();
        let object = &self.object;
        let word = random_u64();
        let whole = seal(self.fence, word, &content);
        let written = object.write(Some(self.version.clone()), whole).await;
        self.version = match written {
            Ok(written) => written.into(),
            Err(StoreError::Precondition { .. } | StoreError::NotFound { .. }) => {
                // Another's, or our own: a client repeats what it got no answer
                // to.
                let found = object.read("put").await?;
                mark::access(found.mark, self.fence)
                    .map_err(|stale| Error::stale(stale, object.doing("put")))?;
                match found.version {
                    Some(version) if found.word == Some(word) => version,
                    _ => {
                        let why = "this hold has claimed or written it since; claim it again";
                        let error = Error::new(ErrorKind::Unavailable, object.doing("put"), why);
                        return Err(error.effect_is(Effect::None));
                    }
                }
            }
            Err(error) => return Err(object.trouble("put", error)),
        };
        self.content = content;
        Ok(())
    }
}

/// The mark, a line of its own, and what follows.
fn seal(fence: Fence, word: u64, content: &[u8]) -> Bytes {
    let mut whole = BytesMut::new();
    whole.extend_from_slice(format!("{KIND}{fence} {word:016x}\n").as_bytes());
    whole.extend_from_slice(content);
    whole.freeze()
}

/// The mark and the word of the last write.
type Sealed = (Fence, u64);

/// What is sealed, unless others wrote it, and the content.
fn open(whole: &Bytes) -> Result<(Option<Sealed>, Bytes), &'static str> {
    if !whole.starts_with(b"leasehold-fence ") {
        return Ok((None, whole.clone()));
    }
    let line = whole
        .iter()
        .take(LONGEST_LINE)
        .position(|byte| *byte == b'\n');
    let line = line.ok_or("its first line is damaged")?;
    let text = std::str::from_utf8(&whole[..line]).map_err(|_| "its first line is damaged")?;
    let sealed = text
        .strip_prefix(KIND)
        .ok_or("a newer leasehold wrote it")?;
    let read = || {
        let (fence, word) = sealed.split_once(' ')?;
        Some((fence.parse().ok()?, u64::from_str_radix(word, 16).ok()?))
    };
    let sealed = read().ok_or("its first line is damaged")?;
    Ok((Some(sealed), whole.slice(line + 1..)))
}

#[cfg(test)]
mod tests {
    use object_store::memory::InMemory;
    use proptest::prelude::*;
    use proptest::strategy::ValueTree as _;
    use proptest::test_runner::{Config, TestRunner};

    use super::*;
    use crate::fence::Token;

    fn fence(token: u64, holder: u64) -> Fence {
        Fence {
            token: Token::new(token),
            holder,
        }
    }

    #[test]
    fn what_is_sealed_can_be_opened_and_what_is_not_ours_is_told() {
        let whole = seal(fence(7, 9), 3, b"a\nb");
        let sealed = Some((fence(7, 9), 3));
        assert_eq!(open(&whole), Ok((sealed, Bytes::from("a\nb"))));
        let foreign = Bytes::from("somebody's own");
        assert_eq!(open(&foreign), Ok((None, foreign.clone())));
        for wrong in [
            "leasehold-fence 2 x\n",
            "leasehold-fence 1 7\n",
            "leasehold-fence 1 7-9\n",
            "leasehold-fence 1 7-9 word\n",
            "leasehold-fence 1",
        ] {
            assert!(open(&Bytes::from(wrong)).is_err(), "{wrong}");
        }
    }

    #[tokio::test]
    async fn a_content_that_comes_back_does_not_let_an_old_writer_in() {
        let bucket: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let object = FencedObject::new(bucket, "value");
        let mut first = object.claim(fence(1, 1)).await.unwrap();
        first.put("a").await.unwrap();
        let mut next = object.claim(fence(2, 2)).await.unwrap();
        next.put("b").await.unwrap();
        next.put("a").await.unwrap();
        let stale = first.put("stale").await.unwrap_err();
        assert!(matches!(stale.kind(), ErrorKind::Stale(_)), "{stale}");
    }

    #[tokio::test]
    async fn any_order_of_claims_and_writes_is_what_the_rule_says() {
        let fences = [fence(1, 1), fence(2, 2), fence(2, 3), fence(3, 4)];
        let steps = prop::collection::vec((0..fences.len(), any::<bool>(), any::<u8>()), 1..40);
        let mut runner = TestRunner::new(Config::default());
        for round in 0..3000 {
            let policy = [Policy::Ordered, Policy::Exact][round % 2];
            let bucket: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
            let object = FencedObject::new(bucket, "value").policy(policy);
            let mut claims = [const { None }; 4];
            let (mut mark, mut content) = (None, Bytes::new());
            for (who, is_claim, byte) in steps.new_tree(&mut runner).unwrap().current() {
                let shown = fences[who];
                if is_claim {
                    match (policy.claim(mark, shown), object.claim(shown).await) {
                        (Ok(raised), Ok(claimed)) => {
                            assert_eq!(claimed.content(), &content);
                            mark = Some(raised);
                            claims[who] = Some(claimed);
                        }
                        (Err(stale), Err(error)) => {
                            assert_eq!(error.kind(), ErrorKind::Stale(stale));
                        }
                        other => panic!("{other:?}"),
                    }
                } else if let Some(claimed) = &mut claims[who] {
                    let new = Bytes::from(vec![byte]);
                    match (mark::access(mark, shown), claimed.put(new.clone()).await) {
                        (Ok(()), Ok(())) => content = new,
                        (Err(_), Err(error)) => {
                            assert!(matches!(error.kind(), ErrorKind::Stale(_)), "{error}");
                        }
                        other => panic!("{other:?}"),
                    }
                }
            }
        }
    }
}
