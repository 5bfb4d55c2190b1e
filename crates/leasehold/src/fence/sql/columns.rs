//! The mark in two columns of the user's own table, and fences as columns.

use sqlx_core::database::Database;
use sqlx_core::encode::Encode;
use sqlx_core::error::Error as SqlxError;
use sqlx_core::query_builder::QueryBuilder;
use sqlx_core::types::Type;

use super::{Error, ErrorKind, Fence, Policy, Result, Token};
use crate::fence::{Stale, access};

/// Two columns of a table of yours that hold the mark of each of its rows: a
/// `bigint` and a text of 16 characters, both empty before the first claim.
///
/// The first statement of a hold raises the mark of a row, all later ones pass
/// only while it is theirs. Both parts go into statements of yours, through
/// `sqlx`'s `QueryBuilder`. After the first, ask [`claimed`](Self::claimed) what
/// became of it, after the others [`passed`](Self::passed):
///
/// ```no_run
/// # use sqlx_core as sqlx;
/// use leasehold::fence::FenceColumns;
/// # use sqlx::{query_as::query_as, query_builder::QueryBuilder};
/// # async fn show(guard: &leasehold::Guard, pool: leasehold::postgres::PgPool)
/// # -> Result<(), Box<dyn std::error::Error>> {
/// # type Postgres = sqlx_postgres::Postgres;
/// let mark = FenceColumns::new("fence_token", "fence_holder")?;
/// let fence = guard.fence();
/// let look = "select fence_token, fence_holder from account where id = 17 for update";
///
/// let mut claim = QueryBuilder::<Postgres>::new("update account set ");
/// mark.push_raise(&mut claim, fence)?;
/// claim.push(" where id = 17 and ");
/// mark.push_claim(&mut claim, fence)?;
/// let done = claim.build().execute(&pool).await?.rows_affected();
/// if !mark.claimed(fence, done, async || query_as(look).fetch_optional(&pool).await).await? {
///     return Err("there is no such account".into()); // so nothing is claimed
/// }
///
/// let mut pay = QueryBuilder::<Postgres>::new("update account set balance = balance - 5");
/// pay.push(" where id = 17 and balance >= 5 and ");
/// mark.push_access(&mut pay, fence)?;
/// let done = pay.build().execute(&pool).await?.rows_affected();
/// let is_paid = mark.passed(fence, done, async || query_as(look).fetch_optional(&pool).await).await?;
/// # Ok(())
/// # }
/// ```
///
/// It protects one row, and each statement must be about one: of several rows
/// some may be refused, and it would count as passed. Whoever reads or writes
/// more than that row needs [`FencedSql`](super::FencedSql).
#[derive(Debug, Clone, Copy)]
pub struct FenceColumns<'a> {
    token: &'a str,
    holder: &'a str,
}

impl<'a> FenceColumns<'a> {
    /// The names of both columns, which become part of statements.
    ///
    /// # Errors
    /// `Usage` if one is more than letters, digits, underscores and dots.
    pub fn new(token: &'a str, holder: &'a str) -> Result<Self> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
        for name in [token, holder] {
            if name.is_empty() || !name.chars().all(is_plain) {
                let why = format!("`{name}` is not the plain name of a column");
                return Err(Error::new(
                    ErrorKind::Usage,
                    "name the fence's columns",
                    why,
                ));
            }
        }
        Ok(Self { token, holder })
    }

    /// Adds `token = …, holder = …`, for `set`.
    ///
    /// # Errors
    /// `Usage` if the token is zero or above 2^63.
    pub fn push_raise<DB: Database>(&self, query: &mut QueryBuilder<DB>, fence: Fence) -> Result<()>
    where
        i64: for<'q> Encode<'q, DB> + Type<DB>,
        String: for<'q> Encode<'q, DB> + Type<DB>,
    {
        let (token, holder) = number(Policy::Ordered, fence, &doing)?;
        query.push(format_args!("{} = ", self.token));
        query.push_bind(token);
        query.push(format_args!(", {} = ", self.holder));
        query.push_bind(holder);
        Ok(())
    }

    /// Adds the condition under which a claim passes, in brackets: the mark is
    /// lower, or the same.
    ///
    /// # Errors
    /// As for [`push_raise`](Self::push_raise).
    pub fn push_claim<DB: Database>(&self, query: &mut QueryBuilder<DB>, fence: Fence) -> Result<()>
    where
        i64: for<'q> Encode<'q, DB> + Type<DB>,
        String: for<'q> Encode<'q, DB> + Type<DB>,
    {
        let (token, _) = number(Policy::Ordered, fence, &doing)?;
        query.push(format_args!("({0} is null or {0} < ", self.token));
        query.push_bind(token);
        query.push(" or ");
        self.push_access(query, fence)?;
        query.push(")");
        Ok(())
    }

    /// Adds the condition under which all else passes, in brackets: the mark is
    /// that of the claim.
    ///
    /// # Errors
    /// As for [`push_raise`](Self::push_raise).
    pub fn push_access<DB: Database>(
        &self,
        query: &mut QueryBuilder<DB>,
        fence: Fence,
    ) -> Result<()>
    where
        i64: for<'q> Encode<'q, DB> + Type<DB>,
        String: for<'q> Encode<'q, DB> + Type<DB>,
    {
        let (token, holder) = number(Policy::Ordered, fence, &doing)?;
        query.push(format_args!("({} = ", self.token));
        query.push_bind(token);
        query.push(format_args!(" and {} = ", self.holder));
        query.push_bind(holder);
        query.push(")");
        Ok(())
    }

    /// Says why a statement with [`push_claim`](Self::push_claim) changed no row,
    /// by a look at both columns: false if the claim would have passed, and other
    /// conditions of yours were not met or there is no such row. Then nothing is
    /// claimed.
    ///
    /// Where there is `for update` (not on SQLite), look with it: inside a
    /// transaction a plain look may show what was there before a newer holder.
    ///
    /// # Errors
    /// `Stale` with the mark if the fence was refused; `Conflict` if the columns
    /// hold something else; `Unavailable` if the look fails.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn claimed(
        &self,
        shown: Fence,
        rows_changed: u64,
        look: impl AsyncFnOnce() -> Result<Option<Kept>, SqlxError>,
    ) -> Result<bool> {
        let rule = |mark| Policy::Ordered.claim(mark, shown).map(|_| ());
        judge(rows_changed, look, rule).await
    }

    /// Says why a statement with [`push_access`](Self::push_access) changed no
    /// row, by a look as for [`claimed`](Self::claimed): false if it did pass the
    /// fence, and other conditions of yours were not met.
    ///
    /// # Errors
    /// `Stale` with the mark if the fence was refused, also if there is no such
    /// row: the claim is not there. Else as for [`claimed`](Self::claimed).
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn passed(
        &self,
        shown: Fence,
        rows_changed: u64,
        look: impl AsyncFnOnce() -> Result<Option<Kept>, SqlxError>,
    ) -> Result<bool> {
        judge(rows_changed, look, |mark| access(mark, shown)).await
    }
}

/// What both columns have.
type Kept = (Option<i64>, Option<String>);

/// Whether a statement passed; if not, whether it was for the fence.
async fn judge(
    rows_changed: u64,
    look: impl AsyncFnOnce() -> Result<Option<Kept>, SqlxError>,
    rule: impl FnOnce(Option<Fence>) -> Result<(), Stale>,
) -> Result<bool> {
    if rows_changed > 0 {
        return Ok(true);
    }
    let found = look().await.map_err(|error| {
        let why = error.to_string();
        Error::new(ErrorKind::Unavailable, doing(), why).from_source(error)
    })?;
    let (token, holder) = found.unwrap_or_default();
    let mark = fence(token, holder.as_deref());
    let mark = mark.map_err(|why| Error::new(ErrorKind::Conflict, doing(), why))?;
    rule(mark).map_err(|stale| Error::stale(stale, doing()))?;
    Ok(false)
}

fn doing() -> String {
    "use a fenced row".to_owned()
}

/// A fence as the database keeps it.
pub(super) fn number(
    policy: Policy,
    fence: Fence,
    doing: &impl Fn() -> String,
) -> Result<(i64, String)> {
    let refuse = |why: &str| Err(Error::new(ErrorKind::Usage, doing(), why));
    if policy == Policy::Ordered && fence.token.get() == 0 {
        return refuse("this lock has no ordered token; choose `Policy::Exact`");
    }
    match i64::try_from(fence.token.get()) {
        Ok(token) => Ok((token, format!("{:016x}", fence.holder))),
        Err(_) => refuse("the token is above 2^63, more than this database can keep"),
    }
}

/// The fence that a database keeps; none before the first claim.
pub(super) fn fence(token: Option<i64>, holder: Option<&str>) -> Result<Option<Fence>, String> {
    let holder = holder.unwrap_or_default();
    let Some(token) = token.filter(|token| *token != 0 || !holder.is_empty()) else {
        return Ok(None);
    };
    let number = u64::try_from(token).map_err(|_| format!("{token} is not a token"))?;
    let is_holder = holder.len() == 16 && holder.bytes().all(|byte| byte.is_ascii_hexdigit());
    let digits = u64::from_str_radix(holder, 16).ok().filter(|_| is_holder);
    let holder = digits.ok_or_else(|| format!("`{holder}` is not a holder"))?;
    Ok(Some(Fence {
        token: Token::new(number),
        holder,
    }))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(token: u64) -> Fence {
        Fence {
            token: Token::new(token),
            holder: 9,
        }
    }

    #[test]
    fn what_a_database_cannot_keep_is_refused() {
        for (policy, token, is_fit) in [
            (Policy::Ordered, 0, false),
            (Policy::Exact, 0, true),
            (Policy::Ordered, 1, true),
            (Policy::Ordered, i64::MAX.unsigned_abs(), true),
            (Policy::Ordered, 1 << 63, false),
            (Policy::Exact, u64::MAX, false),
        ] {
            let number = number(policy, shown(token), &doing);
            assert_eq!(number.is_ok(), is_fit, "{token}: {number:?}");
        }
    }

    #[test]
    fn what_is_not_a_mark_is_told() {
        assert_eq!(fence(None, None), Ok(None));
        assert_eq!(fence(Some(0), Some("")), Ok(None));
        for (token, holder) in [(-1, "0000000000000009"), (1, ""), (1, "9"), (1, "x")] {
            assert!(
                fence(Some(token), Some(holder)).is_err(),
                "{token} {holder}"
            );
        }
    }

    #[test]
    fn a_column_is_a_plain_name() {
        assert!(FenceColumns::new("a.fence_token", "Holder2").is_ok());
        for name in ["", "a b", "a;", "\"a\"", "a'"] {
            assert!(FenceColumns::new(name, "holder").is_err(), "{name}");
            assert!(FenceColumns::new("token", name).is_err(), "{name}");
        }
    }

    proptest! {
        #[test]
        fn a_fence_survives_its_columns(token in 1..=i64::MAX.unsigned_abs(), holder: u64) {
            let shown = Fence { token: Token::new(token), holder };
            let (token, holder) = number(Policy::Ordered, shown, &doing).unwrap();
            prop_assert_eq!(fence(Some(token), Some(&holder)), Ok(Some(shown)));
        }
    }
}
