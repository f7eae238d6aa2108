//! What users write compiles: `?` into their own errors, closures that borrow, spawned tasks, shared policies.

#![cfg(feature = "tokio")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a test says what is wrong by panicking

use std::error::Error as StdError;
use std::io;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use relent::{Attempt, Class, Policy, Token, blocking};

static POLICY: LazyLock<Policy> =
    LazyLock::new(|| Policy::exponential(Duration::from_millis(1)).max_attempts(2).build().unwrap());

async fn get(_url: &str) -> io::Result<String> {
    Err(io::ErrorKind::ConnectionReset.into())
}

#[derive(Debug, thiserror::Error)]
enum Mine {
    #[error("the call failed")]
    Call(#[from] relent::Error<io::Error>),
    #[error("I/O")]
    Io(#[from] io::Error),
}

impl<K> From<relent::Error<anyhow::Error, K>> for Mine {
    fn from(error: relent::Error<anyhow::Error, K>) -> Self {
        Self::Io(io::Error::other(error.into_last().unwrap()))
    }
}

type Boxed = Box<dyn StdError + Send + Sync>;

#[tokio::test(start_paused = true)]
async fn question_marks_go_into_anyhow() {
    async fn page() -> anyhow::Result<String> {
        let page = relent::retry(&POLICY, || get("u")).await?;
        relent::retry(&POLICY, || async { anyhow::Ok(()) }).await?;
        relent::retry(&POLICY, || async { Ok::<(), Boxed>(()) }).await?;
        relent::with(&POLICY).when(|_: &io::Error| true).retry(|_attempt| get("u")).await?;
        blocking::retry(&POLICY, || anyhow::Ok(()))?;
        Ok(page)
    }
    let error = page().await.unwrap_err();
    assert_eq!(error.downcast_ref::<relent::Error<io::Error>>().unwrap().attempts(), 2);
    assert_eq!(error.root_cause().to_string(), "connection reset");
}

#[tokio::test(start_paused = true)]
async fn question_marks_go_into_boxes() {
    async fn page() -> Result<String, Boxed> {
        relent::retry(&POLICY, || async { anyhow::Ok(()) }).await?;
        relent::retry(&POLICY, || async { Ok::<(), Boxed>(()) }).await?;
        relent::retry(&POLICY, || async { Ok::<(), Arc<dyn StdError + Send + Sync>>(()) }).await?;
        Ok(relent::retry(&POLICY, || get("u")).await?)
    }
    async fn unsent() -> Result<String, Box<dyn StdError>> {
        relent::retry(&POLICY, || async { Ok::<(), Box<dyn StdError>>(()) }).await?;
        relent::retry(&POLICY, || async { Ok::<(), Box<dyn StdError + Send>>(()) }).await?;
        Ok(blocking::retry(&POLICY, || Err::<String, Boxed>("who knows".into()))?)
    }
    assert!(page().await.unwrap_err().is::<relent::Error<io::Error>>());
    assert_eq!(unsent().await.unwrap_err().source().unwrap().to_string(), "who knows");
}

#[tokio::test(start_paused = true)]
async fn question_marks_go_into_ones_own_error() {
    async fn page() -> Result<String, Mine> {
        relent::with(&POLICY)
            .when(|_: &anyhow::Error| true)
            .retry(|_attempt| async { anyhow::Ok(()) })
            .await?;
        relent::retry(&POLICY, || async { anyhow::Ok(()) }).await?;
        Ok(relent::retry(&POLICY, || get("u")).await?)
    }
    let Mine::Call(error) = page().await.unwrap_err() else { panic!("another variant") };
    assert_eq!(error.into_last().unwrap().kind(), io::ErrorKind::ConnectionReset);
}

#[tokio::test(start_paused = true)]
async fn operations_borrow_and_change_what_is_around_them() {
    let url = String::from("u");
    let mut tries = Vec::new();
    let result = relent::retry(&POLICY, || {
        tries.push(url.len());
        let url = &url;
        async move { get(url).await }
    })
    .await;
    assert_eq!((result.is_err(), tries), (true, vec![1, 1]));

    // An async block that captures by reference, and an async closure that lends nothing.
    let count = std::cell::Cell::new(0);
    let asks = || async {
        count.set(count.get() + 1);
        get(&url).await
    };
    assert!(relent::retry(&POLICY, asks).await.is_err());
    assert!(relent::retry(&POLICY, async || get("u").await).await.is_err());
    assert!(relent::with(&POLICY).retry(async |_attempt| get("u").await).await.is_err());
    assert_eq!(count.get(), 2);
}

#[tokio::test(start_paused = true)]
async fn spawned_tasks_borrow_what_they_own() {
    let spawned = tokio::spawn(async move {
        let policy = Policy::exponential(Duration::from_millis(1)).build().unwrap();
        let (url, stop, name) = (String::from("u"), Token::new(), String::from("page"));
        let mut events = 0;
        relent::with(&policy)
            .name(&name)
            .cancel_on(&stop)
            .notify(|_: &relent::Event<'_, io::Error>| events += 1)
            .retry(|attempt| {
                let url = &url;
                async move {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                    if attempt.number() < 3 { get(url).await } else { Ok(url.clone()) }
                }
            })
            .await
            .map(|page| (page, events))
    });
    let (page, events) = spawned.await.unwrap().unwrap();
    assert_eq!((page.as_str(), events), ("u", 6), "three starts, three decisions");
}

#[tokio::test(start_paused = true)]
async fn an_attempt_moves_into_a_task() {
    let operation = |attempt: Attempt| async move {
        let task = tokio::spawn(async move {
            let key = attempt.idempotency_key().to_string();
            (attempt.number() == 2).then_some(key).ok_or(io::ErrorKind::TimedOut)
        });
        Ok::<_, io::Error>(task.await.map_err(io::Error::other)??)
    };
    let key = relent::with(&POLICY).retry(operation).await.unwrap();
    assert_eq!(key.len(), 36);
}

#[tokio::test(start_paused = true)]
async fn policies_are_shared_as_one_likes() {
    let shared = Arc::new(Policy::clone(&POLICY));
    let tasks: Vec<_> = (0..3)
        .map(|_| {
            let shared = Arc::clone(&shared);
            tokio::spawn(async move { relent::retry(&shared, || get("u")).await.unwrap_err().attempts() })
        })
        .collect();
    for task in tasks {
        assert_eq!(task.await.unwrap(), 2);
    }
}

#[test]
fn options_are_written_once_and_used_often() {
    let policy = Policy::constant(Duration::ZERO).build().unwrap();
    let with = blocking::with(&policy).name("often").when(|error: &&str| *error == "busy");
    assert_eq!(with.clone().retry(|_attempt| Err::<(), _>("busy")).unwrap_err().attempts(), 4);
    assert_eq!(with.retry(|_attempt| Err::<(), _>("gone")).unwrap_err().attempts(), 1);
}

/// No bounds on the error, nor on what is returned.
#[test]
fn anything_is_an_error_and_anything_a_result() {
    struct Opaque(#[allow(dead_code)] std::cell::RefCell<()>);
    let policy = Policy::never();
    let local = 7;
    let opaque = || Err::<&u32, _>(Opaque(std::cell::RefCell::new(())));
    let error =
        blocking::with(&policy).when(|_: &Opaque| Class::Transient).retry(|_attempt| opaque()).unwrap_err();
    assert!(error.into_last().is_some());
    assert_eq!(blocking::retry(&policy, || Ok::<_, io::Error>(&local)).unwrap(), &7);
    assert_eq!(size_of::<relent::Error<[u8; 4096]>>(), size_of::<usize>());
}

#[test]
fn futures_errors_and_options_are_send_where_their_parts_are() {
    fn send<T: Send>(part: T) -> T {
        part
    }
    fn send_and_sync<T: Send + Sync>() {}
    drop(send(relent::retry(&POLICY, || get("u"))));
    let token = Token::new();
    let with = relent::with(&POLICY).cancel_on(&token).notify(|_: &relent::Event<'_, io::Error>| {});
    drop(send(with.clone().retry(|_attempt| get("u"))));
    drop(send(with.retry_report(|_attempt| get("u"))));
    send_and_sync::<relent::Error<io::Error>>();
    send_and_sync::<relent::Error<anyhow::Error, relent::Dynamic>>();
    send_and_sync::<Attempt>();
    send_and_sync::<Token>();
    send_and_sync::<relent::testing::Recorder>();
    send_and_sync::<relent::testing::Clock>();
    // Nothing needs to be `Sync` for a call to move between threads: not its error, hook, classifier nor operation.
    let (count, told) = (std::cell::Cell::new(0), std::cell::Cell::new(0));
    let unshared = relent::with(&POLICY)
        .when(move |_: &std::cell::Cell<u8>| count.replace(count.get() + 1) > 0)
        .notify(move |_: &_| told.set(told.get() + 1));
    let asked = std::cell::Cell::new(0);
    drop(send(unshared.retry(move |_attempt| {
        asked.set(asked.get() + 1);
        async { Err::<std::cell::Cell<u8>, _>(std::cell::Cell::new(1)) }
    })));
    fn unpin<T: Unpin>(_: T) {}
    unpin(token.cancelled());
}
