//! What ends an attempt that runs too long.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use crate::{AttemptToken, Cancelled, Cause, Timer, Token};

pin_project! {
    /// Completes when the attempt should end, and says why. Sets no timer until it is polled.
    pub(crate) struct Guard<T: Timer> {
        token: AttemptToken<T>,
        cancelled: Option<Cancelled>,
        lost: Option<Cancelled>,
        #[pin]
        sleep: Option<T::Sleep>,
    }
}

impl<T: Timer> Guard<T> {
    pub(crate) fn new(token: AttemptToken<T>) -> Self {
        Self { token, cancelled: None, lost: None, sleep: None }
    }
}

impl<T: Timer> Future for Guard<T> {
    type Output = Cause;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Cause> {
        let mut this = self.project();
        if let Some(caller) = &this.token.caller {
            let cancelled = this.cancelled.get_or_insert_with(|| Token::cancelled(caller));
            if Pin::new(cancelled).poll(context).is_ready() {
                return Poll::Ready(Cause::Cancelled);
            }
        }
        if let Some(lost) = &this.token.lost {
            let lost = this.lost.get_or_insert_with(|| Token::cancelled(lost));
            if Pin::new(lost).poll(context).is_ready() {
                return Poll::Ready(Cause::Lost);
            }
        }
        let Some((end, cause)) = this.token.end() else { return Poll::Pending };
        if this.sleep.is_none() {
            let left = end.since(this.token.timer.now());
            this.sleep.set(Some(this.token.timer.sleep(left)));
        }
        match this.sleep.as_pin_mut() {
            Some(sleep) => sleep.poll(context).map(|()| cause),
            None => Poll::Pending,
        }
    }
}
