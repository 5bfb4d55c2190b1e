//! The door in front of a service that cannot check fences, every state of it.
//!
//! The door is `fence/passage.rs`, the code that ships. Built here is the world
//! around it: requests that arrive at any time, a service that acts on them late
//! or never, connections that break, a process that dies and comes back. The
//! broken variants are deviations of that world, not of the door's code.

use std::time::Duration;

use leasehold::Token;
use leasehold::fence::{Ending, Fence, Passage, Turn};
use stateright::{Model, Property};

/// No request acts so long after it went on; one unit is one step of time.
const DRAIN_MAX: Duration = Duration::from_secs(2);
const LAST_TIME: u8 = 6;

/// What is done otherwise than by the door that ships.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sabotage {
    /// Nothing.
    None,
    /// Tokens are compared, and nobody is waited for.
    CompareOnly,
    /// The mark is in memory only.
    MarkInMemory,
    /// After a restart requests pass at once.
    NoRestartDelay,
    /// Whoever has waited for a step of time passes.
    GivesUp,
    /// A broken connection counts as an answer.
    UnknownIsAnswered,
    /// Two doors, each with a mark of its own.
    TwoDoors,
    /// Two doors with one mark on one disk, but each waits for its own only.
    TwoDoorsOneMark,
}

/// A world: the fences of its requests, and how often the door dies.
#[derive(Debug, Clone)]
pub struct Gate {
    /// The token of each request.
    pub tokens: &'static [u64],
    /// How often the door may die.
    pub crashes: u8,
    /// How often a connection may break.
    pub breaks: u8,
    /// What is wrong.
    pub sabotage: Sabotage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Request {
    Outside,
    /// Arrived at a door, at a time.
    Waiting(u8, u8),
    /// Went on from a door at a time; the door listens for its answer.
    Sent(u8, u8),
    /// Went on at a time, and nobody listens.
    Orphan(u8),
    /// The service has acted and answered to a door.
    Acted(u8),
    Over,
}

/// A state of the world.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct World {
    doors: Vec<Passage>,
    disks: Vec<Option<Fence>>,
    requests: Vec<Request>,
    /// The tokens on which the service acted, in this order.
    acted: Vec<u64>,
    now: u8,
    crashes: u8,
    breaks: u8,
}

/// A step of the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    /// A request arrives at a door.
    Arrive(usize, u8),
    /// A door brings the mark of a request to the disk.
    Keep(usize),
    /// It goes on to the service.
    Go(usize),
    /// The service acts on it.
    Act(usize),
    /// It is lost on its way.
    Vanish(usize),
    /// The door hears the answer.
    Hear(usize),
    /// The connection breaks.
    Break(usize),
    /// Every door dies and comes back.
    Crash,
    /// Time passes.
    Tick,
}

fn seconds(time: u8) -> Duration {
    Duration::from_secs(time.into())
}

impl Gate {
    fn doors(&self) -> u8 {
        match self.sabotage {
            Sabotage::TwoDoors | Sabotage::TwoDoorsOneMark => 2,
            _ => 1,
        }
    }

    /// Which disk a door has.
    fn disk(&self, door: u8) -> usize {
        if self.sabotage == Sabotage::TwoDoorsOneMark {
            return 0;
        }
        door.into()
    }

    fn fence(&self, request: usize) -> Fence {
        let number = self.tokens[request];
        let token = Token::new(number);
        let holder = number;
        Fence { token, holder }
    }

    /// What a waiting request may do.
    fn turn(&self, world: &World, request: usize, door: u8, since: u8) -> Option<Turn> {
        let fence = self.fence(request);
        let passage = &world.doors[usize::from(door)];
        let turn = passage.turn(fence, seconds(world.now)).ok()?;
        let is_waiting = matches!(turn, Turn::Wait(_));
        let passes = match self.sabotage {
            Sabotage::CompareOnly => true,
            Sabotage::GivesUp => world.now > since,
            _ => false,
        };
        Some(if is_waiting && passes { Turn::Go } else { turn })
    }

    fn arrive(&self, world: &mut World, request: usize, door: u8) {
        let shared = world.disks[self.disk(door)];
        let passage = &mut world.doors[usize::from(door)];
        if let Some(mark) = shared.filter(|_| self.sabotage == Sabotage::TwoDoorsOneMark)
            && passage.arrive(mark).is_ok()
        {
            passage.keep(mark);
        }
        world.requests[request] = match passage.arrive(self.fence(request)) {
            Ok(()) => Request::Waiting(door, world.now),
            Err(_) => Request::Over,
        };
    }

    fn crash(&self, world: &mut World) {
        let delay = match self.sabotage {
            Sabotage::NoRestartDelay => Duration::ZERO,
            _ => DRAIN_MAX,
        };
        if self.sabotage == Sabotage::MarkInMemory {
            world.disks.fill(None);
        }
        for door in 0..self.doors() {
            let mark = world.disks[self.disk(door)];
            let open = seconds(world.now) + delay;
            // Whom the disk does not know, nobody has come to.
            world.doors[usize::from(door)] = match mark {
                Some(_) => Passage::after_restart(mark, open),
                None => Passage::new(),
            };
        }
        for request in &mut world.requests {
            *request = match *request {
                Request::Waiting(..) | Request::Acted(_) => Request::Over,
                Request::Sent(_, at) => Request::Orphan(at),
                other => other,
            };
        }
        world.crashes += 1;
    }

    fn end(&self, world: &mut World, request: usize, door: u8, ending: Ending) {
        let now = seconds(world.now);
        let ending = match self.sabotage {
            Sabotage::UnknownIsAnswered => Ending::Answered,
            _ => ending,
        };
        world.doors[usize::from(door)].end(self.fence(request), ending, now, DRAIN_MAX);
    }
}

impl Model for Gate {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        let doors = usize::from(self.doors());
        vec![World {
            doors: vec![Passage::new(); doors],
            disks: vec![None; doors],
            requests: vec![Request::Outside; self.tokens.len()],
            acted: Vec::new(),
            now: 0,
            crashes: 0,
            breaks: 0,
        }]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        for (number, request) in world.requests.iter().enumerate() {
            match *request {
                Request::Outside => {
                    steps.extend((0..self.doors()).map(|door| Step::Arrive(number, door)));
                }
                Request::Waiting(door, since) => match self.turn(world, number, door, since) {
                    Some(Turn::Keep) => steps.push(Step::Keep(number)),
                    Some(Turn::Go) => steps.push(Step::Go(number)),
                    _ => {}
                },
                Request::Sent(..) => {
                    steps.push(Step::Act(number));
                    if world.breaks < self.breaks {
                        steps.push(Step::Break(number));
                    }
                }
                Request::Orphan(_) => steps.extend([Step::Act(number), Step::Vanish(number)]),
                Request::Acted(_) => steps.push(Step::Hear(number)),
                Request::Over => {}
            }
        }
        if world.crashes < self.crashes {
            steps.push(Step::Crash);
        }
        // What has been under way for so long has acted or is gone.
        let is_over = |request: &Request| match *request {
            Request::Sent(_, at) | Request::Orphan(at) => at == world.now,
            _ => true,
        };
        if world.now < LAST_TIME && world.requests.iter().all(is_over) {
            steps.push(Step::Tick);
        }
    }

    fn next_state(&self, world: &World, step: Step) -> Option<World> {
        let mut next = world.clone();
        match step {
            Step::Arrive(request, door) => self.arrive(&mut next, request, door),
            Step::Keep(request) => {
                let Request::Waiting(door, _) = world.requests[request] else {
                    return None;
                };
                let fence = self.fence(request);
                let disk = &mut next.disks[self.disk(door)];
                *disk = (*disk).max(Some(fence));
                next.doors[usize::from(door)].keep(fence);
            }
            Step::Go(request) => {
                let Request::Waiting(door, _) = world.requests[request] else {
                    return None;
                };
                next.doors[usize::from(door)].start(self.fence(request));
                next.requests[request] = Request::Sent(door, world.now);
            }
            Step::Act(request) => {
                next.acted.push(self.tokens[request]);
                next.requests[request] = match world.requests[request] {
                    Request::Sent(door, _) => Request::Acted(door),
                    _ => Request::Over,
                };
            }
            Step::Vanish(request) => next.requests[request] = Request::Over,
            Step::Hear(request) => {
                let Request::Acted(door) = world.requests[request] else {
                    return None;
                };
                self.end(&mut next, request, door, Ending::Answered);
                next.requests[request] = Request::Over;
            }
            Step::Break(request) => {
                let Request::Sent(door, at) = world.requests[request] else {
                    return None;
                };
                self.end(&mut next, request, door, Ending::Unknown);
                next.requests[request] = Request::Orphan(at);
                next.breaks += 1;
            }
            Step::Crash => self.crash(&mut next),
            Step::Tick => next.now += 1,
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("order", |_, world: &World| world.acted.is_sorted()),
            // Or the door might be one that nobody passes.
            Property::sometimes("all pass", |gate: &Self, world: &World| {
                world.acted.len() == gate.tokens.len()
            }),
            Property::sometimes("newest after trouble", |gate: &Self, world: &World| {
                let is_troubled = world.crashes == gate.crashes && world.breaks == gate.breaks;
                is_troubled && world.acted.last() == gate.tokens.iter().max()
            }),
        ]
    }
}
