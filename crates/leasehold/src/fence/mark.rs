//! PURE: whom a resource lets in.
//!
//! A resource keeps a *mark*: the fence of the last claim it accepted, as
//! durably as its data. The first step of a hold is a claim, which raises the
//! mark before anything is read; every access after it passes only while the
//! mark is still that of the claim. Checking writes alone would not do: a
//! holder could read, be overtaken by one that reads the same and has not
//! written yet, and both writes would pass.

use super::Fence;

/// Which claims a resource accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Policy {
    /// A claim with a greater token takes over, and none with a lower one. For
    /// locks whose tokens are ordered: grades A and B.
    #[default]
    Ordered,
    /// Every claim takes over. For tokens that are only unique, grade C: no
    /// update is lost on one resource, but a stale holder that claims anew cuts
    /// off the current one, and over two resources the two may each get one.
    Exact,
}

impl Policy {
    /// The mark after this claim.
    ///
    /// # Errors
    /// `Stale` if the mark is not to be taken over. The same fence may claim
    /// again; an equal token of another holder may not.
    pub fn claim(self, mark: Option<Fence>, shown: Fence) -> Result<Fence, Stale> {
        match mark {
            Some(mark) if self == Self::Ordered && shown != mark && shown.token <= mark.token => {
                Err(Stale {
                    shown,
                    mark: Some(mark),
                })
            }
            _ => Ok(shown),
        }
    }
}

/// Whether an access passes that comes after its claim, whatever the policy.
///
/// # Errors
/// `Stale` if the mark is another's, or lower: a resource that was set back to
/// an earlier state does not have what was read under the claim.
pub fn access(mark: Option<Fence>, shown: Fence) -> Result<(), Stale> {
    if mark == Some(shown) {
        return Ok(());
    }
    Err(Stale { shown, mark })
}

/// The resource refuses a fence: another holder came later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stale {
    /// The fence that was shown.
    pub shown: Fence,
    /// The fence that the resource goes by; none if it has seen no claim.
    pub mark: Option<Fence>,
}

impl std::fmt::Display for Stale {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { shown, mark } = self;
        match mark {
            Some(mark) => write!(f, "fence {shown} is stale: the resource is at {mark}"),
            None => write!(
                f,
                "fence {shown} is stale: the resource knows of no claim any more"
            ),
        }
    }
}

impl std::error::Error for Stale {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fence::Token;

    fn fence(token: u64, holder: u64) -> Fence {
        Fence {
            token: Token::new(token),
            holder,
        }
    }

    #[test]
    fn an_equal_token_passes_only_for_the_same_holder() {
        let mark = Some(fence(7, 1));
        assert_eq!(Policy::Ordered.claim(mark, fence(7, 1)), Ok(fence(7, 1)));
        for other in [0, 2] {
            let refused = Policy::Ordered.claim(mark, fence(7, other));
            assert_eq!(refused.unwrap_err().mark, mark);
        }
    }

    #[test]
    fn two_resources_can_end_up_with_a_holder_each_if_marks_are_exact() {
        let (stale, newer) = (fence(1, 1), fence(2, 2));
        let marks = |policy: Policy| {
            let mut marks = [None, None];
            // The stale one comes to the second resource after the newer one.
            for (resource, claims) in [(0, stale), (0, newer), (1, newer), (1, stale)] {
                if let Ok(raised) = policy.claim(marks[resource], claims) {
                    marks[resource] = Some(raised);
                }
            }
            marks
        };
        assert_eq!(marks(Policy::Exact), [Some(newer), Some(stale)]);
        assert_eq!(marks(Policy::Ordered), [Some(newer), Some(newer)]);
    }

    #[test]
    fn whoever_claimed_last_is_let_in_and_nobody_else() {
        let mark = Policy::Exact.claim(Some(fence(9, 1)), fence(3, 2)).ok();
        assert_eq!(access(mark, fence(3, 2)), Ok(()));
        assert!(access(mark, fence(9, 1)).is_err());
        assert!(access(None, fence(9, 1)).is_err());
    }

    proptest! {
        #[test]
        fn an_ordered_mark_never_goes_back(shown in prop::collection::vec((0..6_u64, 0..3_u64), 0..40)) {
            let mut mark = None;
            for (token, holder) in shown {
                let before = mark;
                if let Ok(after) = Policy::Ordered.claim(mark, fence(token, holder)) {
                    mark = Some(after);
                }
                prop_assert!(mark.map(|fence| fence.token) >= before.map(|fence| fence.token));
                if mark.map(|fence| fence.token) == before.map(|fence| fence.token) {
                    prop_assert_eq!(mark, before);
                }
            }
        }
    }
}
