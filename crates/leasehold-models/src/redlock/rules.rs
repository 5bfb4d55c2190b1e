//! What one row of the table assumes: the protocol, right or broken, and the faults.

/// How a token is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// No tokens: one round.
    Plain,
    /// Broken: each node counts for itself and the token is the highest reply.
    CountPerNode,
    /// Broken: round 2 asks for the key only, on any node, and raises to at
    /// least the token.
    Loose,
    /// Broken: as ours, but a guess is taken up where the counter is not higher.
    LooseGuess,
    /// Ours: round 2 where the counter was read, and only if it is lower; the
    /// same for a guess in round 1.
    Strict,
}

/// When a key may vanish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expiry {
    /// Only after its owner has stopped: clocks are as good as assumed.
    OnTime,
    /// At any time: a clock jumped, somebody deleted it, it was evicted.
    AnyTime,
}

/// What follows when a node has forgotten everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remedy {
    /// Broken: it takes part at once.
    None,
    /// Broken: it takes part as soon as every attempt of before is over.
    Delay,
    /// It stays in quarantine for ever.
    Quarantine,
    /// Broken: it takes over the highest counter of the others.
    Copy,
    /// Broken: it alone jumps.
    JumpAlone,
    /// Ours: the others are raised first.
    Jump,
}

/// Whether a holder renews once, and how it counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Renewals {
    /// It does not.
    None,
    /// Ours: by a majority of all nodes.
    OfAll,
    /// Broken: by a majority of those that answered.
    OfAnswers,
}

/// Further than the attempts of a row can count, and short enough to read.
const FAR: u64 = 100;

/// One row's assumptions.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    /// How a token is made.
    pub scheme: Scheme,
    /// How many tokens one grant is worth.
    pub width: u64,
    /// The tokens that an attempt may guess, 0 for none; chosen when it begins.
    pub guesses: &'static [u64],
    /// When a key may vanish.
    pub keys: Expiry,
    /// Whether an idle lock's counter may vanish, at any time.
    pub counters_expire: bool,
    /// Whether a node remembers the highest counter it ever had.
    pub remembers_high: bool,
    /// How often a holder reaches the resource.
    pub accesses: u8,
    /// How many requests the network may deliver twice.
    pub repeats: u8,
    /// How often a node may forget everything.
    pub amnesias: u8,
    /// What follows then.
    pub remedy: Remedy,
    /// How far a readmission jumps.
    pub jump: u64,
    /// Whether a client that is done tells every node.
    pub releases: bool,
    /// Whether a holder renews.
    pub renewals: Renewals,
    /// Whether the first two attempts are one client's, one after the other.
    pub first_client_tries_twice: bool,
    /// Whether states that differ only in the order of nodes are one. Not where
    /// people read the trace.
    pub symmetry: bool,
}

impl Rules {
    /// Nothing goes wrong but loss, delay, reordering and pauses, which are
    /// always there.
    pub const fn of(scheme: Scheme) -> Self {
        Self {
            scheme,
            width: 1,
            guesses: &[0],
            keys: Expiry::OnTime,
            counters_expire: false,
            remembers_high: true,
            accesses: 0,
            repeats: 0,
            amnesias: 0,
            remedy: Remedy::None,
            jump: FAR,
            releases: false,
            renewals: Renewals::None,
            first_client_tries_twice: false,
            symmetry: true,
        }
    }
}
