//! Questions are numbers, the answer to each is itself, and parties depart when the
//! test lets them.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::Semaphore;

use super::*;

const LONG: Duration = Duration::from_secs(30);
const MOST: usize = 3;

struct Ferry {
    gathering: Gathering<u32, u32>,
    /// One permit lets one party be answered.
    answers: Semaphore,
    /// Who is not wanted any more.
    unwanted: Mutex<Vec<u32>>,
    /// The parties, as they departed.
    departed: Mutex<Vec<Vec<u32>>>,
    carries: AtomicUsize,
}

impl Ferry {
    fn with(answers: usize) -> Arc<Self> {
        Arc::new(Self {
            gathering: Gathering::new(1),
            answers: Semaphore::new(answers),
            unwanted: Mutex::default(),
            departed: Mutex::default(),
            carries: AtomicUsize::new(0),
        })
    }

    fn join(self: &Arc<Self>, question: u32) -> Joined<Self> {
        join(self, || question)
    }

    fn together(self: &Arc<Self>, question: u32) -> Place<Self> {
        match self.join(question) {
            Joined::Together(place) => place,
            Joined::Alone(_) => panic!("{question} goes alone"),
        }
    }

    fn alone(self: &Arc<Self>) -> Way<Self> {
        match self.join(0) {
            Joined::Alone(way) => way,
            Joined::Together(_) => panic!("it does not go alone"),
        }
    }

    async fn until_departed(&self, parties: usize) {
        let departed = async {
            while lock(&self.departed).len() < parties {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(LONG, departed).await.unwrap();
    }

    fn departed(&self) -> Vec<Vec<u32>> {
        lock(&self.departed).clone()
    }
}

impl Carrier for Ferry {
    type Question = u32;
    type Answer = u32;

    fn gathering(&self) -> &Gathering<u32, u32> {
        &self.gathering
    }

    async fn carry(&self) {
        self.carries.fetch_add(1, SeqCst);
        let is_wanted = |question: &u32| !lock(&self.unwanted).contains(question);
        let send = |party: &[Asked<u32, u32>]| {
            let party = party.iter().map(|one| one.question).collect();
            lock(&self.departed).push(party);
        };
        let Some((party, ())) = self.gathering.depart(MOST, is_wanted, send) else {
            return;
        };
        self.answers.acquire().await.unwrap().forget();
        for one in party {
            let answer = one.question;
            one.answer(answer);
        }
    }
}

async fn hear(place: Place<Ferry>) -> Option<u32> {
    tokio::time::timeout(LONG, place.answer()).await.unwrap()
}

#[tokio::test]
async fn one_at_a_time_goes_alone_and_no_task_runs() {
    let ferry = Ferry::with(0);
    for _ in 0..5 {
        drop(ferry.alone());
    }
    assert_eq!(ferry.carries.load(SeqCst), 0);
}

#[tokio::test]
async fn those_who_come_while_a_party_is_under_way_go_together() {
    let ferry = Ferry::with(0);
    let _way = ferry.alone();
    let first = ferry.together(1);
    ferry.until_departed(1).await;
    let others: Vec<_> = (2..=6).map(|question| ferry.together(question)).collect();
    ferry.answers.add_permits(3);
    assert_eq!(hear(first).await, Some(1));
    for (other, question) in others.into_iter().zip(2..) {
        assert_eq!(hear(other).await, Some(question));
    }
    assert_eq!(ferry.departed(), [vec![1], vec![2, 3, 4], vec![5, 6]]);
}

#[tokio::test]
async fn whoever_gives_up_before_it_departs_is_not_asked_for() {
    let ferry = Ferry::with(0);
    let _way = ferry.alone();
    let first = ferry.together(1);
    ferry.until_departed(1).await;
    let (second, third) = (ferry.together(2), ferry.together(3));
    drop(second);
    ferry.answers.add_permits(2);
    assert_eq!(hear(first).await, Some(1));
    assert_eq!(hear(third).await, Some(3));
    assert_eq!(ferry.departed(), [vec![1], vec![3]]);
}

#[tokio::test]
async fn whoever_is_not_wanted_any_more_hears_that_there_is_no_answer() {
    let ferry = Ferry::with(1);
    let _way = ferry.alone();
    lock(&ferry.unwanted).push(1);
    ferry.gathering.seal();
    let (first, second) = (ferry.together(1), ferry.together(2));
    assert_eq!(hear(first).await, None);
    assert_eq!(hear(second).await, Some(2));
    assert_eq!(ferry.departed(), [vec![2]]);
}

#[tokio::test]
async fn nobody_waits_for_one_who_is_not_polled() {
    let ferry = Ferry::with(2);
    // It went alone, and whoever has it looks elsewhere.
    let _way = ferry.alone();
    let mut first = Box::pin(ferry.together(1).answer());
    assert_eq!((&mut first).now_or_never(), None);
    // Its answer comes, and it is not polled again before this one has its own.
    assert_eq!(hear(ferry.together(2)).await, Some(2));
    assert_eq!(first.await, Some(1));
}

#[tokio::test]
async fn nobody_waits_for_a_way_that_leads_nowhere() {
    let ferry = Ferry::with(0);
    let _way = ferry.alone();
    let first = ferry.together(1);
    ferry.until_departed(1).await;
    let second = ferry.together(2);
    disown(&ferry);
    ferry.until_departed(2).await;
    assert_eq!(ferry.departed(), [vec![1], vec![2]]);
    // What leads nowhere may end after all, and counts no more.
    ferry.answers.add_permits(2);
    assert_eq!(hear(first).await, Some(1));
    assert_eq!(hear(second).await, Some(2));
    let emptied = async {
        while lock(&ferry.gathering.waiting).rounds > 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LONG, emptied).await.unwrap();
}

#[tokio::test]
async fn many_at_once_are_carried_by_as_few_steps_as_there_are_parties() {
    const MANY: u32 = 20_000;
    let ferry = Ferry::with(MANY as usize);
    let _way = ferry.alone();
    let places: Vec<_> = (0..MANY).map(|question| ferry.together(question)).collect();
    for (place, question) in places.into_iter().zip(0..) {
        assert_eq!(hear(place).await, Some(question));
    }
    assert_eq!(ferry.departed().len(), (MANY as usize).div_ceil(MOST));
    assert_eq!(ferry.carries.load(SeqCst), (MANY as usize).div_ceil(MOST));
}

#[test]
fn a_runtime_that_is_gone_leaves_nobody_waiting() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let ferry = runtime.block_on(async { Ferry::with(0) });
    let _way = ferry.alone();
    drop(runtime);
    let place = ferry.together(1);
    assert_eq!(place.answer().now_or_never(), Some(None));
}
