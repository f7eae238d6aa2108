//! The fleet in motion.

use std::collections::{BTreeMap, VecDeque};

use relent_core::{
    Call, Class, Common, Decision, HedgePolicy, Hint, Moment, Outcome, Policy, Reason, Share, Start,
    Timestamp, entropy,
};

use crate::luck::{Law, Luck, Purpose, exponential, unit};
use crate::model::Pulse;
use crate::model::fleet::race::in_race;
use crate::model::fleet::sharing::{Homes, Layout, Sharing};
use crate::model::fleet::{Arrivals, Fleet, Order, Service, Trouble, TroubleKind};
use crate::model::herd::nanos;
use crate::queue::Queue;
use crate::record::Recorder;
use crate::strategy::Strategy;

/// What is kept between replications: memory.
#[derive(Default)]
pub(crate) struct Scratch {
    pub(super) queue: Queue<Event>,
    pub(super) calls: Slab<CallState>,
    pub(super) attempts: Slab<Attempt>,
    clients: Vec<Client>,
    /// Empty where calls share nothing: they pay for no more than they are.
    pub(super) homes: Homes,
}

impl Scratch {
    /// A call, and its share in what it shares, if it does.
    #[inline]
    fn call(&mut self, place: u32) -> Option<(&mut CallState, Option<Share<'_, Common>>)> {
        Some((self.calls.get_mut(place)?, self.homes.share(place)))
    }
}

/// What happens. Numbers are places in the slabs and lists.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    /// The next call of an open kind of clients.
    Arrive { kind: u32 },
    /// A client calls, unless its state has changed since.
    Client { client: u32, epoch: u32 },
    /// A wait is over.
    Begin { call: u32, epoch: u32 },
    /// An attempt reaches its service.
    Reach { attempt: u32 },
    /// The service's own work on it is done.
    Done { attempt: u32 },
    /// The answer reaches the caller.
    Reply { attempt: u32 },
    /// The caller stops waiting for an attempt.
    Timeout { call: u32, epoch: u32, attempt: u32 },
    /// Another attempt of a call is due beside those that run.
    Hedge { call: u32, epoch: u32 },
    /// Trouble begins or ends.
    Trouble { index: u32, begins: bool },
}

/// A call in progress.
#[derive(Clone, Copy)]
pub(super) struct CallState {
    pub(super) call: Call,
    /// What its luck is drawn by.
    pub(super) id: u64,
    began: u64,
    pub(super) link: u32,
    caller: Caller,
    /// Counts attempts, waits and ends in this place of the slab: what belongs to an older one is out of date.
    epoch: u32,
}

#[derive(Clone, Copy)]
enum Caller {
    Client(u32),
    /// An attempt in service, which holds its worker meanwhile.
    Attempt(u32),
}

/// An attempt on its way, in a queue or in service.
#[derive(Clone, Copy)]
pub(super) struct Attempt {
    call: u32,
    epoch: u32,
    id: u64,
    number: u32,
    service: u32,
    /// How long the answer will travel.
    back: u64,
    /// How long the service's own work takes.
    work: u64,
    /// Which of the service's calls comes next.
    step: u32,
    outcome: Outcome,
    stage: Stage,
}

/// Where an attempt is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// On its way, or in a queue.
    Coming,
    /// In service since then.
    InService(u64),
    /// Nobody wants it any more, and the service knows.
    GivenUp,
}

/// A client.
#[derive(Clone, Copy, Default)]
struct Client {
    kind: u32,
    calls: u32,
    epoch: u32,
    connected: bool,
    /// When a paced client wants to make its next call.
    next: u64,
}

/// An edge with what it needs looked up.
pub(super) struct Link<'a> {
    to: u32,
    /// How many shards it leads to.
    shards: u32,
    delay: Law,
    timeout: Option<u64>,
    pub(super) policy: &'a Policy,
    sharing: Option<Sharing<'a>>,
    /// Whether its attempts are the ones that are counted.
    watched: bool,
}

/// A service in motion.
struct Running<'a> {
    service: &'a Service,
    /// Which of its shards this is.
    shard: u32,
    /// The links of its calls: from, and how many.
    links: (u32, u32),
    in_service: u32,
    waiting: VecDeque<u32>,
    tokens: f64,
    refilled: u64,
    out_until: u64,
    refuses: u32,
    hangs: u32,
    capacity: f64,
    errors: f64,
    slow: f64,
}

impl Running<'_> {
    fn workers(&self) -> Option<u32> {
        let workers = self.service.workers?;
        Some((f64::from(workers) * self.capacity) as u32)
    }

    fn has_free_worker(&self) -> bool {
        self.workers().is_none_or(|workers| self.in_service < workers)
    }

    /// Why it does not let an attempt in, if so.
    fn refuses(&mut self, now: u64) -> Option<Outcome> {
        let refused = Outcome::of(Class::Transient);
        if self.refuses > 0 || now < self.out_until {
            return Some(refused);
        }
        if let Some(overload) = self.service.overload
            && self.in_service as usize + self.waiting.len() >= overload.above as usize
        {
            self.out_until = now.saturating_add(nanos(overload.out_for));
            return Some(refused);
        }
        let limit = self.service.rate_limit?;
        let passed = (now - self.refilled) as f64 / 1e9;
        self.tokens = (self.tokens + passed * limit.per_second).min(f64::from(limit.burst));
        self.refilled = now;
        if self.tokens >= 1.0 {
            self.tokens -= 1.0;
            return None;
        }
        let throttled = Outcome::of(Class::Throttled);
        Some(limit.retry_after.map_or(throttled, |after| throttled.hint(Hint::After(after))))
    }

    fn is_full(&self) -> bool {
        self.service.queue.is_some_and(|most| self.waiting.len() >= most as usize)
    }
}

pub(super) struct World<'a> {
    fleet: &'a Fleet,
    pub(super) luck: Luck,
    pub(super) links: Vec<Link<'a>>,
    services: Vec<Running<'a>>,
    troubles: Vec<(u32, &'a Trouble)>,
    /// Where each kind's clients begin.
    firsts: Vec<u32>,
    /// Calls that an open kind has begun.
    arrived: Vec<u64>,
    pub(super) scratch: &'a mut Scratch,
    pub(super) recorder: &'a mut Recorder,
    ends: u64,
}

impl Fleet {
    pub(crate) fn run(
        &self,
        strategy: &Strategy,
        luck: Luck,
        scratch: &mut Scratch,
        recorder: &mut Recorder,
        pulse: &mut Pulse<'_>,
    ) {
        scratch.queue.clear();
        scratch.calls.clear();
        scratch.attempts.clear();
        scratch.clients.clear();
        let mut world = World::new(self, strategy, luck, scratch, recorder);
        world.populate();
        let last = nanos(self.horizon.saturating_add(self.grace));
        while let Some((now, event)) = world.scratch.queue.pop() {
            if now > last || !pulse.beat(now) {
                break;
            }
            world.handle(now, event);
        }
    }
}

impl<'a> World<'a> {
    fn new(
        fleet: &'a Fleet,
        strategy: &'a Strategy,
        luck: Luck,
        scratch: &'a mut Scratch,
        recorder: &'a mut Recorder,
    ) -> Self {
        // Where each service's shards begin, and how many they are.
        let mut next_place = 0;
        let places: BTreeMap<&str, (u32, u32)> = fleet
            .services
            .iter()
            .map(|service| {
                let place = (next_place, service.shards);
                next_place += service.shards;
                (service.name.as_str(), place)
            })
            .collect();
        let place = |name: &String| places.get(name.as_str()).copied().unwrap_or((u32::MAX, 1));
        let of_clients =
            fleet.clients.iter().map(|clients| (&clients.call, clients.count, fleet.watch.is_none()));
        let of_services = fleet
            .services
            .iter()
            .flat_map(|service| service.calls.iter().map(|edge| (edge, service.shards, false)));
        // A kind of clients is one origin, and a service another, whatever it calls.
        let origins = (0u32..fleet.clients.len() as u32).chain(
            (fleet.clients.len() as u32..)
                .zip(&fleet.services)
                .flat_map(|(origin, service)| std::iter::repeat_n(origin, service.calls.len())),
        );
        let mut layout = Layout::new(fleet);
        let links = of_clients
            .chain(of_services)
            .zip(origins)
            .map(|((edge, callers, counted), origin)| {
                let strategy = edge.policy.as_ref().unwrap_or(strategy);
                let (to, shards) = place(&edge.to);
                Link {
                    to,
                    shards,
                    delay: edge.delay,
                    timeout: edge.timeout.map(nanos),
                    policy: &strategy.policy,
                    sharing: layout.of(edge, strategy, origin, callers),
                    watched: counted || fleet.watch.as_ref() == Some(&edge.to),
                }
            })
            .collect();
        scratch.homes.reset(layout.homes());
        let mut next_link = fleet.clients.len() as u32;
        let mut services = Vec::new();
        for service in &fleet.services {
            let links = (next_link, service.calls.len() as u32);
            next_link += links.1;
            services.extend((0..service.shards).map(|shard| Running {
                service,
                shard,
                links,
                in_service: 0,
                waiting: VecDeque::new(),
                tokens: service.rate_limit.map_or(0.0, |limit| f64::from(limit.burst)),
                refilled: 0,
                out_until: 0,
                refuses: 0,
                hangs: 0,
                capacity: 1.0,
                errors: 0.0,
                slow: 1.0,
            }));
        }
        let troubles = fleet
            .troubles
            .iter()
            .flat_map(|trouble| {
                let (first, shards) = place(&trouble.service);
                let hit = trouble.shard.map_or(1..=shards, |shard| shard..=shard);
                hit.map(move |shard| (first + shard - 1, trouble))
            })
            .collect();
        let arrived = vec![0; fleet.clients.len()];
        let ends = nanos(fleet.horizon);
        Self { fleet, luck, links, services, troubles, firsts: Vec::new(), arrived, scratch, recorder, ends }
    }

    /// Trouble first: what begins at the same instant meets it.
    fn populate(&mut self) {
        for (index, (_, trouble)) in self.troubles.iter().enumerate() {
            let (index, begins) = (index as u32, nanos(trouble.at));
            let ends = nanos(trouble.at.saturating_add(trouble.lasts));
            self.scratch.queue.push(begins, Event::Trouble { index, begins: true });
            self.scratch.queue.push(ends, Event::Trouble { index, begins: false });
        }
        for (kind, clients) in self.fleet.clients.iter().enumerate() {
            let kind = kind as u32;
            let first = self.scratch.clients.len() as u32;
            self.firsts.push(first);
            self.scratch.clients.extend((0..clients.count).map(|_| Client { kind, ..Client::default() }));
            if let Arrivals::Open { .. } = clients.arrivals {
                self.schedule_open(0, kind);
                continue;
            }
            for client in first..first + clients.count {
                let mut dice = self.luck.dice(Purpose::Arrival, u64::from(client), 0);
                let at = match &clients.arrivals {
                    Arrivals::Listen { lifetime, .. } => {
                        if let Some(state) = self.scratch.clients.get_mut(client as usize) {
                            state.connected = true;
                        }
                        let Some(lifetime) = lifetime else { continue };
                        lifetime.draw(&mut dice)
                    }
                    Arrivals::Closed { think } => think.draw(&mut dice),
                    Arrivals::Paced { rate } => (exponential(&mut dice) / rate * 1e9) as u64,
                    Arrivals::Burst { at, within } => {
                        nanos(*at).saturating_add((unit(&mut dice) * nanos(*within) as f64) as u64)
                    }
                    Arrivals::Cron { within, .. } => (unit(&mut dice) * nanos(*within) as f64) as u64,
                    Arrivals::Open { .. } => 0,
                };
                self.schedule_client(at, client);
            }
        }
    }

    fn handle(&mut self, now: u64, event: Event) {
        match event {
            Event::Arrive { kind } => self.arrive(now, kind),
            Event::Client { client, epoch } => self.client_calls(now, client, epoch),
            Event::Begin { call, epoch } => self.wait_is_over(now, call, epoch),
            Event::Reach { attempt } => self.reach(now, attempt),
            Event::Done { attempt } => self.own_work_done(now, attempt),
            Event::Reply { attempt } => self.reply(now, attempt),
            Event::Timeout { call, epoch, attempt } => {
                if self.is_awaited(call, epoch) {
                    self.give_up(now, attempt, (call, epoch));
                    self.attempt_ended(now, call, epoch, Outcome::of(Class::Timeout));
                }
            }
            Event::Hedge { call, epoch } => {
                if self.scratch.homes.racing(call).is_some_and(|racing| racing.epoch == epoch) {
                    self.race_on(now, call);
                }
            }
            Event::Trouble { index, begins } => self.trouble(now, index, begins),
        }
    }

    // Clients.

    /// The next call of an open kind; the times are those of the profile, whatever happens to the calls.
    fn schedule_open(&mut self, now: u64, kind: u32) {
        let Some(clients) = self.fleet.clients.get(kind as usize) else { return };
        let Arrivals::Open { rate, random } = &clients.arrivals else { return };
        let Some(arrived) = self.arrived.get_mut(kind as usize) else { return };
        *arrived += 1;
        let mut dice = self.luck.dice(Purpose::Arrival, *arrived ^ (u64::from(kind) << 48), 1);
        let step = if *random { exponential(&mut dice) } else { 1.0 };
        if let Some(at) = rate.after(now as f64 / 1e9, step) {
            let at = ((at * 1e9) as u64).max(now);
            if at <= self.ends {
                self.scratch.queue.push(at, Event::Arrive { kind });
            }
        }
    }

    fn arrive(&mut self, now: u64, kind: u32) {
        let (Some(clients), Some(number)) =
            (self.fleet.clients.get(kind as usize), self.arrived.get(kind as usize).copied())
        else {
            return;
        };
        let key = number ^ (u64::from(kind) << 48);
        let drawn = self.luck.dice(Purpose::Arrival, key, 2).roll();
        let among = ((u128::from(drawn) * u128::from(clients.count)) >> 64) as u32;
        let client = self.firsts.get(kind as usize).map_or(0, |first| first + among);
        self.schedule_open(now, kind);
        self.begin_call(now, kind, Caller::Client(client), entropy(1, key, kind));
    }

    /// Schedules a client's next call, if its time is not over by then.
    fn schedule_client(&mut self, at: u64, client: u32) {
        let Some(state) = self.scratch.clients.get_mut(client as usize) else { return };
        state.epoch += 1;
        if at <= self.ends {
            self.scratch.queue.push(at, Event::Client { client, epoch: state.epoch });
        }
    }

    fn client_calls(&mut self, now: u64, client: u32, epoch: u32) {
        let Some(state) = self.scratch.clients.get_mut(client as usize) else { return };
        if state.epoch != epoch {
            return;
        }
        let (kind, number) = (state.kind, state.calls);
        state.calls += 1;
        state.connected = false;
        match self.fleet.clients.get(kind as usize).map(|clients| &clients.arrivals) {
            Some(Arrivals::Paced { rate }) => {
                let mut dice = self.luck.dice(Purpose::Arrival, u64::from(client), number + 1);
                state.next = now.saturating_add((exponential(&mut dice) / rate * 1e9) as u64);
            }
            Some(Arrivals::Cron { every, within }) => {
                let mut dice = self.luck.dice(Purpose::Arrival, u64::from(client), number + 1);
                let tick = u64::from(number + 1).saturating_mul(nanos(*every));
                let at = tick.saturating_add((unit(&mut dice) * nanos(*within) as f64) as u64);
                self.schedule_client(at.max(now), client);
            }
            _ => {}
        }
        self.begin_call(now, kind, Caller::Client(client), entropy(2, u64::from(client), number));
    }

    /// A client's call has ended: what it does next.
    fn client_goes_on(&mut self, now: u64, client: u32, reason: Reason) {
        let Some(state) = self.scratch.clients.get_mut(client as usize) else { return };
        let mut dice = self.luck.dice(Purpose::Arrival, u64::from(client), state.calls | 1 << 31);
        match self.fleet.clients.get(state.kind as usize).map(|clients| &clients.arrivals) {
            Some(Arrivals::Closed { think }) => {
                let at = now.saturating_add(think.draw(&mut dice));
                self.schedule_client(at, client);
            }
            Some(Arrivals::Paced { .. }) => {
                let at = state.next.max(now);
                self.schedule_client(at, client);
            }
            Some(Arrivals::Listen { lifetime, .. }) => {
                state.connected = reason == Reason::Succeeded;
                if let (true, Some(lifetime)) = (state.connected, lifetime) {
                    let at = now.saturating_add(lifetime.draw(&mut dice));
                    self.schedule_client(at, client);
                }
            }
            Some(Arrivals::Open { .. } | Arrivals::Burst { .. } | Arrivals::Cron { .. }) | None => {}
        }
    }

    // Calls.

    fn begin_call(&mut self, now: u64, link: u32, caller: Caller, id: u64) {
        let Some(found) = self.links.get(link as usize) else { return };
        let (policy, sharing, shards) = (found.policy, found.sharing, found.shards);
        if let Caller::Client(_) = caller {
            self.recorder.begin(now);
        }
        let call = Call::new(Some(Timestamp::from_nanos(now)));
        let place = self.scratch.calls.insert(|old| CallState {
            epoch: old.map_or(0, |old| old.epoch),
            call,
            id,
            began: now,
            link,
            caller,
        });
        if let Some(sharing) = sharing {
            let home = sharing.home(self.number_of(caller), shard_of(id, shards));
            self.scratch.homes.begin(place, home, sharing.policy, self.luck.decision(HOMES, 0));
        }
        let moment = self.moment(now, id, 0);
        let start = call.start(policy, &mut self.scratch.homes.share(place), moment);
        self.start(now, place, start);
    }

    /// A client's number among those of its kind, or a shard's among those of its service.
    fn number_of(&self, caller: Caller) -> u32 {
        match caller {
            Caller::Client(client) => {
                let kind = self.scratch.clients.get(client as usize).map_or(0, |client| client.kind);
                client - self.firsts.get(kind as usize).copied().unwrap_or(0)
            }
            Caller::Attempt(attempt) => {
                let attempt = self.scratch.attempts.get(attempt);
                let service = attempt.and_then(|attempt| self.services.get(attempt.service as usize));
                service.map_or(0, |service| service.shard)
            }
        }
    }

    fn wait_is_over(&mut self, now: u64, place: u32, epoch: u32) {
        if !self.is_current(place, epoch) {
            return;
        }
        let luck = self.luck;
        let Some((state, mut share)) = self.scratch.call(place) else { return };
        let Some(policy) = self.links.get(state.link as usize).map(|link| link.policy) else { return };
        let moment = Moment::at(Timestamp::from_nanos(now), luck.decision(state.id, state.call.attempts()));
        let start = state.call.admit(policy, &mut share, moment);
        self.start(now, place, start);
    }

    fn start(&mut self, now: u64, place: u32, start: Start) {
        match start {
            Start::Go => match self.hedges(place) {
                Some(hedge) => self.begin_race(now, place, &hedge),
                None => {
                    let made = self.scratch.calls.get(place).map_or(0, |state| state.call.attempts());
                    self.attempt(now, place, in_race(made, 0));
                }
            },
            Start::Wait { after, .. } => {
                let epoch = self.wait(now, place, nanos(after));
                self.scratch.homes.wait(place, epoch);
            }
            Start::Stop { reason } => self.end_call(now, place, reason),
        }
    }

    /// The call begins, or its next attempt, after so long.
    pub(super) fn wait(&mut self, now: u64, place: u32, after: u64) -> u32 {
        let epoch = self.next_epoch(place);
        self.scratch.queue.push(now.saturating_add(after), Event::Begin { call: place, epoch });
        epoch
    }

    /// Lets those ask again that wait for what this call may have given back.
    pub(super) fn wake(&mut self, now: u64, place: u32) {
        for (call, epoch) in self.scratch.homes.wake(place) {
            self.scratch.queue.push(now, Event::Begin { call, epoch });
        }
    }

    fn hedges(&self, place: u32) -> Option<HedgePolicy> {
        let link = self.links.get(self.scratch.calls.get(place)?.link as usize)?;
        link.sharing?.policy.hedge
    }

    /// Makes an attempt; `number` is that of its luck. Returns its epoch and its place.
    pub(super) fn attempt(&mut self, now: u64, place: u32, number: u32) -> Option<(u32, u32)> {
        let epoch = self.next_epoch(place);
        let state = self.scratch.calls.get(place)?;
        let link = self.links.get(state.link as usize)?;
        let first = number == in_race(0, 0);
        if link.watched {
            self.recorder.attempt(now, first);
        }
        let limit = state.call.attempt_limit(link.policy, Timestamp::from_nanos(now)).map(nanos);
        let limit = match (limit, link.timeout) {
            (Some(limit), Some(timeout)) => Some(limit.min(timeout)),
            (limit, timeout) => limit.or(timeout),
        };
        let mut dice = self.luck.dice(Purpose::Network, state.id, number);
        let there = link.delay.draw(&mut dice);
        let attempt = Attempt {
            call: place,
            epoch,
            id: state.id,
            number,
            service: link.to + shard_of(state.id, link.shards),
            back: link.delay.draw(&mut dice),
            work: 0,
            step: 0,
            outcome: Outcome::of(Class::Success),
            stage: Stage::Coming,
        };
        let attempt = self.scratch.attempts.insert(|_| attempt);
        self.scratch.queue.push(now.saturating_add(there), Event::Reach { attempt });
        // It comes before an answer of the same instant: the caller waits less than the limit.
        if let Some(limit) = limit {
            let timeout = Event::Timeout { call: place, epoch, attempt };
            self.scratch.queue.push(now.saturating_add(limit), timeout);
        }
        Some((epoch, attempt))
    }

    fn attempt_ended(&mut self, now: u64, place: u32, epoch: u32, outcome: Outcome) {
        if self.scratch.homes.racing(place).is_some() {
            self.lane_ended(now, place, epoch, outcome);
        } else {
            self.decide(now, place, outcome);
        }
    }

    fn decide(&mut self, now: u64, place: u32, outcome: Outcome) {
        let (luck, recorder) = (self.luck, &mut self.recorder);
        let Some((state, mut share)) = self.scratch.call(place) else { return };
        let Some(policy) = self.links.get(state.link as usize).map(|link| link.policy) else { return };
        let number = state.call.attempts() + 1;
        let moment = Moment::at(Timestamp::from_nanos(now), luck.decision(state.id, number));
        match state.call.decide(policy, &mut share, outcome, moment) {
            Decision::Retry { after, .. } => {
                recorder.wait(state.id, number, nanos(after));
                self.wake(now, place);
                self.wait(now, place, nanos(after));
            }
            Decision::Stop { reason, after } => {
                self.end_call(now.saturating_add(after.map_or(0, nanos)), place, reason);
            }
        }
    }

    pub(super) fn end_call(&mut self, now: u64, place: u32, reason: Reason) {
        self.next_epoch(place);
        let Some(state) = self.scratch.calls.remove(place) else { return };
        self.scratch.homes.end(place, now);
        self.wake(now, place);
        match state.caller {
            Caller::Client(client) => {
                self.recorder.end(now, state.began, client as usize, reason);
                self.client_goes_on(now, client, reason);
            }
            Caller::Attempt(attempt) if reason == Reason::Succeeded => self.next_step(now, attempt),
            Caller::Attempt(attempt) => self.finish(now, attempt, Outcome::of(Class::Transient)),
        }
    }

    /// Whether somebody waits for the attempt of this epoch.
    fn is_awaited(&self, place: u32, epoch: u32) -> bool {
        match self.scratch.homes.racing(place) {
            Some(racing) => racing.lanes.iter().any(|lane| lane.epoch == epoch),
            None => self.is_current(place, epoch),
        }
    }

    fn is_current(&self, place: u32, epoch: u32) -> bool {
        self.scratch.calls.get(place).is_some_and(|state| state.epoch == epoch)
    }

    fn next_epoch(&mut self, place: u32) -> u32 {
        self.scratch.calls.get_mut(place).map_or(0, |state| {
            state.epoch = state.epoch.wrapping_add(1);
            state.epoch
        })
    }

    fn moment(&self, now: u64, id: u64, number: u32) -> Moment {
        Moment::at(Timestamp::from_nanos(now), self.luck.decision(id, number))
    }

    // Services.

    fn reach(&mut self, now: u64, place: u32) {
        let Some(attempt) = self.scratch.attempts.get(place) else { return };
        let Some(service) = self.services.get_mut(attempt.service as usize) else { return };
        if service.hangs > 0 || attempt.stage == Stage::GivenUp {
            self.scratch.attempts.remove(place);
        } else if let Some(refused) = service.refuses(now) {
            self.answer(now, place, refused);
        } else if service.has_free_worker() {
            self.work(now, place);
        } else if service.is_full() {
            self.answer(now, place, Outcome::of(Class::Transient));
        } else {
            service.waiting.push_back(place);
        }
    }

    fn work(&mut self, now: u64, place: u32) {
        let Some(attempt) = self.scratch.attempts.get_mut(place) else { return };
        let Some(service) = self.services.get_mut(attempt.service as usize) else { return };
        service.in_service += 1;
        let mut dice = self.luck.dice(Purpose::Service, attempt.id, attempt.number);
        // The first number says whether the work fails; see `own_work_done`.
        dice.roll();
        let time = service.service.time.draw(&mut dice) as f64 * service.slow;
        let slowdown = nanos(service.service.slowdown).saturating_mul(u64::from(service.in_service));
        attempt.work = (time as u64).saturating_add(slowdown);
        attempt.stage = Stage::InService(now);
        self.scratch.queue.push(now.saturating_add(attempt.work), Event::Done { attempt: place });
    }

    fn own_work_done(&mut self, now: u64, place: u32) {
        let Some(attempt) = self.scratch.attempts.get(place) else { return };
        let Some(service) = self.services.get(attempt.service as usize) else { return };
        if attempt.stage == Stage::GivenUp {
            self.scratch.attempts.remove(place);
            return;
        }
        let fails = unit(&mut self.luck.dice(Purpose::Service, attempt.id, attempt.number));
        let kept = (1.0 - service.service.error_rate) * (1.0 - service.errors);
        if fails < 1.0 - kept {
            self.finish(now, place, Outcome::of(Class::Transient));
        } else {
            self.next_step(now, place);
        }
    }

    /// The service's next call, or its answer.
    fn next_step(&mut self, now: u64, place: u32) {
        let Some(attempt) = self.scratch.attempts.get_mut(place) else { return };
        let Some(service) = self.services.get(attempt.service as usize) else { return };
        if attempt.stage == Stage::GivenUp {
            self.scratch.attempts.remove(place);
            return;
        }
        let (first, count) = service.links;
        if attempt.step >= count {
            return self.finish(now, place, Outcome::of(Class::Success));
        }
        let link = first + attempt.step;
        attempt.step += 1;
        let id = entropy(attempt.id, u64::from(attempt.number), link);
        self.begin_call(now, link, Caller::Attempt(place), id);
    }

    fn finish(&mut self, now: u64, place: u32, outcome: Outcome) {
        let Some(attempt) = self.scratch.attempts.get_mut(place) else { return };
        if attempt.stage == Stage::GivenUp {
            self.scratch.attempts.remove(place);
            return;
        }
        attempt.stage = Stage::Coming;
        let index = attempt.service;
        if let Some(service) = self.services.get_mut(index as usize) {
            service.in_service -= 1;
        }
        self.answer(now, place, outcome);
        self.put_to_work(now, index);
    }

    /// The caller of an attempt waits no longer; a service that hears of it stops its work.
    pub(super) fn give_up(&mut self, now: u64, place: u32, (call, epoch): (u32, u32)) {
        let Some(attempt) = self.scratch.attempts.get_mut(place) else { return };
        // Of one that vanished the place may be another's by now.
        if (attempt.call, attempt.epoch) != (call, epoch) {
            return;
        }
        let index = attempt.service;
        let Some(service) = self.services.get_mut(index as usize) else { return };
        if !service.service.stops_unwanted {
            return;
        }
        let before = std::mem::replace(&mut attempt.stage, Stage::GivenUp);
        if let Stage::InService(since) = before {
            service.in_service -= 1;
            self.recorder.work(attempt.work.min(now - since), false);
            self.put_to_work(now, index);
        }
    }

    /// Gives free workers what waits.
    fn put_to_work(&mut self, now: u64, index: u32) {
        loop {
            let Some(service) = self.services.get_mut(index as usize) else { return };
            if !service.has_free_worker() {
                return;
            }
            let next = match service.service.order {
                Order::Fifo => service.waiting.pop_front(),
                Order::Lifo => service.waiting.pop_back(),
            };
            let Some(next) = next else { return };
            let drop_expired = service.service.drop_expired;
            let unwanted = self.scratch.attempts.get(next).is_none_or(|next| {
                next.stage == Stage::GivenUp || (drop_expired && !self.is_awaited(next.call, next.epoch))
            });
            if unwanted {
                self.scratch.attempts.remove(next);
            } else {
                self.work(now, next);
            }
        }
    }

    fn answer(&mut self, now: u64, place: u32, outcome: Outcome) {
        let Some(attempt) = self.scratch.attempts.get_mut(place) else { return };
        attempt.outcome = outcome;
        self.scratch.queue.push(now.saturating_add(attempt.back), Event::Reply { attempt: place });
    }

    fn reply(&mut self, now: u64, place: u32) {
        let Some(attempt) = self.scratch.attempts.remove(place) else { return };
        let awaited = self.is_awaited(attempt.call, attempt.epoch);
        // Of one that was given up in service the work has been counted.
        if attempt.work > 0 {
            self.recorder.work(attempt.work, awaited && attempt.outcome.class == Class::Success);
        }
        if awaited {
            self.attempt_ended(now, attempt.call, attempt.epoch, attempt.outcome);
        }
    }

    // Trouble.

    fn trouble(&mut self, now: u64, index: u32, begins: bool) {
        let Some((place, trouble)) = self.troubles.get(index as usize).copied() else { return };
        let Some(service) = self.services.get_mut(place as usize) else { return };
        let count = |there: u32| if begins { there + 1 } else { there - 1 };
        match trouble.kind {
            TroubleKind::Refuse => service.refuses = count(service.refuses),
            TroubleKind::Hang => service.hangs = count(service.hangs),
            TroubleKind::Capacity(factor) => service.capacity = if begins { factor } else { 1.0 },
            TroubleKind::Errors(rate) => service.errors = if begins { rate } else { 0.0 },
            TroubleKind::Slow(factor) => service.slow = if begins { factor } else { 1.0 },
        }
        match trouble.kind {
            TroubleKind::Capacity(_) if !begins => self.put_to_work(now, place),
            TroubleKind::Refuse | TroubleKind::Hang if begins => self.disconnect(now, place),
            _ => {}
        }
    }

    /// Listeners of the service lose their connections.
    fn disconnect(&mut self, now: u64, place: u32) {
        for client in 0..self.scratch.clients.len() as u32 {
            let Some(state) = self.scratch.clients.get(client as usize) else { return };
            let kind = state.kind as usize;
            let calls_it = self.links.get(kind).is_some_and(|link| link.to == place);
            let Some(Arrivals::Listen { notice, .. }) =
                self.fleet.clients.get(kind).map(|kind| &kind.arrivals)
            else {
                continue;
            };
            if state.connected && calls_it {
                let mut dice = self.luck.dice(Purpose::Arrival, u64::from(client), state.calls | 1 << 30);
                self.schedule_client(now.saturating_add(notice.draw(&mut dice)), client);
            }
        }
    }
}

/// The shard that a call is for: its key's.
fn shard_of(id: u64, shards: u32) -> u32 {
    if shards == 1 {
        return 0;
    }
    ((u128::from(entropy(id, SHARDS, 0)) * u128::from(shards)) >> 64) as u32
}

/// What shards are drawn for, and the luck of shared states.
const SHARDS: u64 = 0x0051_a2d5;
const HOMES: u64 = 0x9e37_79b9_7f4a_7c15;

/// A list whose places are used again.
pub(super) struct Slab<T> {
    places: Vec<(T, bool)>,
    free: Vec<u32>,
}

impl<T: Copy> Slab<T> {
    fn clear(&mut self) {
        self.places.clear();
        self.free.clear();
    }

    /// Puts in what is made of the place's last inhabitant.
    fn insert(&mut self, make: impl FnOnce(Option<&T>) -> T) -> u32 {
        let free = self.free.pop().and_then(|place| Some((place, self.places.get_mut(place as usize)?)));
        match free {
            Some((place, slot)) => {
                *slot = (make(Some(&slot.0)), true);
                place
            }
            None => {
                self.places.push((make(None), true));
                (self.places.len() - 1) as u32
            }
        }
    }

    pub(super) fn get(&self, place: u32) -> Option<&T> {
        self.places.get(place as usize).filter(|(_, taken)| *taken).map(|(it, _)| it)
    }

    pub(super) fn get_mut(&mut self, place: u32) -> Option<&mut T> {
        self.places.get_mut(place as usize).filter(|(_, taken)| *taken).map(|(it, _)| it)
    }

    pub(super) fn remove(&mut self, place: u32) -> Option<T> {
        let (it, taken) = self.places.get_mut(place as usize).filter(|(_, taken)| *taken)?;
        *taken = false;
        self.free.push(place);
        Some(*it)
    }
}

#[cfg(test)]
impl<T> Slab<T> {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { places: Vec::new(), free: Vec::new() }
    }
}

const _: () = assert!(size_of::<(u64, Event)>() <= 24);
