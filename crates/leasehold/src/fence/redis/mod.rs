//! Values in Redis that refuse a stale holder.
//!
//! The mark is a key of its own, without a time to live. Whoever reads or
//! writes through here does so in one script with the look at the mark, so that
//! nothing comes between. In a cluster the mark and all keys it protects must
//! be in one slot: give them the same `{tag}`.
//!
//! The mark is as durable as the server: one that forgets it, by a restart
//! without its data or a failover to a replica that lagged, lets an older
//! holder claim again until a newer one comes.

use redis::aio::ConnectionLike;
use redis::{FromRedisValue, RedisError, Script, ToRedisArgs, Value, from_redis_value};

use super::{Fence, Policy, Stale, Token};
use crate::error::{Effect, Error, ErrorKind, Result};

const CLAIM: &str = include_str!("claim.lua");
const ACCESS: &str = include_str!("access.lua");
const ANSWER: &str = include_str!("answer.lua");
const GET: &str = "return redis.call('GET', KEYS[1])";
const SET: &str = "return redis.call('SET', KEYS[1], ARGV[1])";

/// Keys of which only the newest holder reads and writes.
///
/// ```no_run
/// # async fn show(guard: &leasehold::Guard, mut redis: redis::aio::MultiplexedConnection)
/// # -> leasehold::Result<()> {
/// let stock = leasehold::fence::FencedRedis::new("{stock}:mark");
/// let stock = stock.claim(&mut redis, guard.fence()).await?; // before anything is read
/// let bottles: Option<u32> = stock.get(&mut redis, "{stock}:bottles").await?;
/// let left = bottles.unwrap_or(0).saturating_sub(1);
/// stock.set(&mut redis, "{stock}:bottles", left).await // `Stale` if another has claimed it
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct FencedRedis {
    mark: String,
    policy: Policy,
}

impl FencedRedis {
    /// The key of the mark.
    pub fn new(mark: impl Into<String>) -> Self {
        Self {
            mark: mark.into(),
            policy: Policy::default(),
        }
    }

    /// Which claims are accepted. Everyone who uses the mark must agree.
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Raises the mark before anything is read.
    ///
    /// # Errors
    /// `Stale` if another has come later; `Usage` if the lock has no ordered
    /// token; `Conflict` if the key is something else; else as the client says.
    ///
    /// # Cancel safety
    /// The mark may have been raised.
    pub async fn claim(
        &self,
        connection: &mut impl ConnectionLike,
        fence: Fence,
    ) -> Result<ClaimedRedis> {
        let doing = || format!("claim {}", self.mark);
        if self.policy == Policy::Ordered && fence.token.get() == 0 {
            let why = "this lock has no ordered token; choose `Policy::Exact`";
            return Err(Error::new(ErrorKind::Usage, doing(), why));
        }
        let claimed = ClaimedRedis {
            mark: self.mark.clone(),
            fence,
        };
        let script = Script::new(CLAIM);
        let mut call = script.key(&self.mark);
        call.arg(text(fence))
            .arg(u8::from(self.policy == Policy::Exact));
        let reply = call.invoke_async(connection).await;
        claimed.read(reply, &doing)?;
        Ok(claimed)
    }
}

/// Keys under a claim. Each call passes only while the claim is the newest.
#[derive(Debug, Clone)]
pub struct ClaimedRedis {
    mark: String,
    fence: Fence,
}

impl ClaimedRedis {
    /// Whose claim it is.
    pub fn fence(&self) -> Fence {
        self.fence
    }

    /// A key's value.
    ///
    /// # Errors
    /// As for [`FencedRedis::claim`].
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn get<T: FromRedisValue>(
        &self,
        connection: &mut impl ConnectionLike,
        key: impl ToRedisArgs,
    ) -> Result<T> {
        let nothing: [&str; 0] = [];
        self.run(connection, GET, &[key], &nothing).await
    }

    /// Sets a key to a value.
    ///
    /// # Errors
    /// As for [`FencedRedis::claim`].
    ///
    /// # Cancel safety
    /// It may have been set.
    pub async fn set(
        &self,
        connection: &mut impl ConnectionLike,
        key: impl ToRedisArgs,
        value: impl ToRedisArgs,
    ) -> Result<()> {
        self.run(connection, SET, &[key], &[value]).await
    }

    /// Runs a script of yours, in one step with the look at the mark. It sees
    /// its own `KEYS` and `ARGV` only.
    ///
    /// # Errors
    /// As for [`FencedRedis::claim`]; an error of your script is `Usage`.
    ///
    /// # Cancel safety
    /// It may have run.
    pub async fn run<T: FromRedisValue>(
        &self,
        connection: &mut impl ConnectionLike,
        script: &str,
        keys: &[impl ToRedisArgs],
        arguments: &[impl ToRedisArgs],
    ) -> Result<T> {
        let script = Script::new(&format!("{ACCESS}{script}\n{ANSWER}"));
        let mut call = script.key(&self.mark);
        call.arg(text(self.fence));
        for key in keys {
            call.key(key);
        }
        for argument in arguments {
            call.arg(argument);
        }
        let doing = || format!("use what {} protects", self.mark);
        let reply = call.invoke_async(connection).await;
        let answer = self.read(reply, &doing)?;
        from_redis_value(answer).map_err(|error| {
            let why = error.to_string();
            Error::new(ErrorKind::Usage, doing(), why).effect_is(Effect::Unknown)
        })
    }

    /// What a script answered, if it let us pass.
    fn read(
        &self,
        reply: Result<Vec<Value>, RedisError>,
        doing: &dyn Fn() -> String,
    ) -> Result<Value> {
        let mut reply = reply.map_err(|error| trouble(error, doing()))?.into_iter();
        let word: Option<String> = reply.next().and_then(|word| from_redis_value(word).ok());
        match word.as_deref() {
            Some("passed") => Ok(reply.next().unwrap_or(Value::Nil)),
            _ => {
                let mark: Option<String> = reply.next().and_then(|it| from_redis_value(it).ok());
                let mark = mark.filter(|mark| !mark.is_empty());
                let mark = mark.map(|mark| read(&mark)).transpose().map_err(|()| {
                    let why = format!("the key {} is not a mark", self.mark);
                    Error::new(ErrorKind::Conflict, doing(), why)
                })?;
                let shown = self.fence;
                Err(Error::stale(Stale { shown, mark }, doing()))
            }
        }
    }
}

/// A fence that compares as text: all tokens are equally long.
fn text(fence: Fence) -> String {
    format!("{:020}-{:016x}", fence.token.get(), fence.holder)
}

fn read(text: &str) -> Result<Fence, ()> {
    let (token, holder) = text.split_once('-').ok_or(())?;
    Ok(Fence {
        token: Token::new(token.parse().map_err(|_| ())?),
        holder: u64::from_str_radix(holder, 16).map_err(|_| ())?,
    })
}

fn trouble(error: RedisError, doing: String) -> Error {
    use redis::{ErrorKind as Kind, ServerErrorKind as Server};
    let (kind, effect) = match error.kind() {
        Kind::Server(Server::NoPerm) | Kind::AuthenticationFailed => {
            (ErrorKind::Denied, Effect::None)
        }
        Kind::Server(Server::ReadOnly) => (ErrorKind::Denied, Effect::None),
        Kind::Server(Server::ResponseError | Server::CrossSlot) => {
            // A script is not undone where it stops.
            (ErrorKind::Usage, Effect::Unknown)
        }
        Kind::Extension if error.code() == Some("WRONGTYPE") => (ErrorKind::Conflict, Effect::None),
        Kind::Extension => (ErrorKind::Usage, Effect::Unknown),
        _ => (ErrorKind::Unavailable, Effect::Unknown),
    };
    let why = error.to_string();
    Error::new(kind, doing, why)
        .effect_is(effect)
        .from_source(error)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_text_compares_as_the_tokens_do(a: u64, b: u64, holder: u64) {
            let fence = |token| Fence { token: Token::new(token), holder };
            let (left, right) = (text(fence(a)), text(fence(b)));
            prop_assert_eq!(left[..20].cmp(&right[..20]), a.cmp(&b));
            prop_assert_eq!(read(&left), Ok(fence(a)));
        }
    }
}
