//! What HTTP outcomes mean to a retry.
//!
//! A status says little by itself: the same 400 is a throttled call from one AWS service and a broken one from another,
//! and a 503 may say how long to stay away. This crate reads status, headers and body of a response, without any I/O and
//! without a clock, and gives what the decision wants to know: the [`Class`](relent_core::Class), the server's
//! [`Hint`](relent_core::Hint), and the error's code.
//!
//! | module | answers |
//! |---|---|
//! | [`class`] | would another try help? |
//! | [`safety`] | would it do harm, and can the body be sent again? |
//! | [`hint`] | how long does the response ask to stay away? |
//! | [`layers`] | which attempt of the layers above is it, and did one below give up? |
//! | [`aws`] | what does an error response of an AWS service mean? |

pub mod aws;
pub mod class;
pub mod hint;
pub mod layers;
pub mod safety;
mod texts;
