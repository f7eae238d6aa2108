//! The hold model: take the earliest event, schedule it again. Nothing but the engine.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::error::Error;
use std::rc::Rc;
use std::time::Duration;

use desru::{Event, EventScheduler};
use nexosim::model::{Context, Model, schedulable};
use nexosim::simulation::{Mailbox, SimInit};
use nexosim::time::MonotonicTime;
use relent_core::Dice;
use relent_sim::Queue;
use serde::{Deserialize, Serialize};

use crate::run::{Run, Stopwatch};

/// How many events are pending and how many are handled.
#[derive(Clone, Copy)]
pub(crate) struct Hold {
    pub(crate) pending: u32,
    pub(crate) steps: u32,
}

/// Draws the time until an event is due again, in nanoseconds: eight doublings, as a backoff ladder has.
#[derive(Clone, Serialize, Deserialize)]
struct Ladder(u64);

impl Ladder {
    fn step(&mut self) -> u64 {
        let mut dice = Dice::new(self.0);
        let luck = dice.roll();
        self.0 = luck;
        // None of them zero: one engine refuses to schedule for now.
        1 + (luck >> 20) % (100_000_000 << (luck & 7))
    }
}

impl Hold {
    pub(crate) fn relent(self) -> Run {
        let mut ladder = Ladder(1);
        let mut queue = Queue::new();
        for id in 0..self.pending {
            queue.push(ladder.step(), id);
        }
        let watch = Stopwatch::start();
        for _ in 0..self.steps {
            let Some((time, id)) = queue.pop() else { break };
            queue.push(time + ladder.step(), id);
        }
        Run::of(u64::from(self.steps), watch, queue.len() as u64)
    }

    pub(crate) fn heap(self) -> Run {
        let mut ladder = Ladder(1);
        let mut heap = BinaryHeap::new();
        for id in 0..self.pending {
            heap.push(Reverse((ladder.step(), id)));
        }
        let watch = Stopwatch::start();
        for _ in 0..self.steps {
            let Some(Reverse((time, id))) = heap.pop() else { break };
            heap.push(Reverse((time + ladder.step(), id)));
        }
        Run::of(u64::from(self.steps), watch, heap.len() as u64)
    }

    pub(crate) fn desru(self) -> Run {
        fn due(scheduler: &mut EventScheduler, shared: Rc<Cell<(u64, u32)>>) {
            let (state, handled) = shared.get();
            let mut ladder = Ladder(state);
            let at = scheduler.current_time + ladder.step() as f64 / 1e9;
            shared.set((ladder.0, handled + 1));
            let action = Box::new(move |scheduler: &mut EventScheduler| {
                due(scheduler, Rc::clone(&shared));
                None
            });
            scheduler.schedule(Event::new(at, Some(action), None));
        }
        let shared = Rc::new(Cell::new((1, 0)));
        let mut scheduler = EventScheduler::new();
        for _ in 0..self.pending {
            due(&mut scheduler, Rc::clone(&shared));
        }
        shared.set((shared.get().0, 0));
        let (watched, steps) = (Rc::clone(&shared), self.steps);
        let watch = Stopwatch::start();
        scheduler.run(Box::new(move |_| watched.get().1 >= steps), Some(Box::new(|_, _| false)));
        Run::of(u64::from(self.steps), watch, scheduler.event_queue.len() as u64)
    }

    pub(crate) fn nexosim(self) -> Result<Run, Box<dyn Error>> {
        let timers = Timers { ladder: Ladder(1), pending: self.pending };
        let simulation = SimInit::with_num_threads(1).add_model(timers, Mailbox::new(), "timers");
        let mut simulation = simulation.init(MonotonicTime::EPOCH)?;
        let watch = Stopwatch::start();
        for _ in 0..self.steps {
            simulation.step()?;
        }
        Ok(Run::of(u64::from(self.steps), watch, u64::from(self.pending)))
    }
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Timers {
    ladder: Ladder,
    pending: u32,
}

#[Model]
impl Timers {
    #[nexosim(init)]
    async fn init(&mut self, cx: &Context<Self>) {
        for id in 0..self.pending {
            self.again(id, cx);
        }
    }

    #[nexosim(schedulable)]
    async fn due(&mut self, id: u32, cx: &Context<Self>) {
        self.again(id, cx);
    }

    fn again(&mut self, id: u32, cx: &Context<Self>) {
        let step = Duration::from_nanos(self.ladder.step());
        // It only refuses what is due now or before.
        let _ = cx.schedule_event(step, schedulable!(Self::due), id);
    }
}
