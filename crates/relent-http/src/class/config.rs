//! The table `http` of a policy file.

use relent_config::{Checks, Code, Entry, Resolved};
use relent_core::Class;

use super::Table;

/// The name of the policies' table that this crate owns: who reads a file declares it
/// ([`Reader::policy_table`](relent_config::Reader::policy_table)).
pub const TABLE: &str = "http";

/// The classes that a status can have in a file, each of them a key with a list of statuses. An attempt's being cancelled
/// is no status.
pub const CLASSES: [Class; 7] = [
    Class::Success,
    Class::Transient,
    Class::Throttled,
    Class::Timeout,
    Class::NotSent,
    Class::Permanent,
    Class::Ignored,
];

impl Table {
    /// The table of a policy. What is wrong with it goes into `checks`, and is left out.
    ///
    /// ```
    /// use http::StatusCode;
    /// use relent_config::Reader;
    /// use relent_core::Class;
    /// use relent_http::class::{TABLE, Table};
    ///
    /// let text = "version = 1\n[policies.default]\nhttp = { transient = [409, 425], ignored = [404] }\n";
    /// let file = Reader::new().policy_table(TABLE).parse(text, "relent.toml")?;
    /// let mut checks = file.checks();
    /// let table = Table::of_policy(file.resolved("default")?, &mut checks);
    /// checks.finish()?;
    /// assert_eq!(table.status(StatusCode::NOT_FOUND), Class::Ignored);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn of_policy(policy: &Resolved, checks: &mut Checks) -> Self {
        let mut table = Self::new();
        let Some(http) = policy.extension(TABLE) else { return table };
        checks.only_keys(&http, &CLASSES.map(Class::as_str));
        for class in CLASSES {
            let Some(list) = http.get(class.as_str()) else { continue };
            if !list.is_array() {
                checks.wrong_type(&list, "a list of HTTP statuses");
            }
            for entry in list.items() {
                table.insert(class, &entry, checks);
            }
        }
        table
    }

    fn insert(&mut self, class: Class, entry: &Entry<'_>, checks: &mut Checks) {
        let status = entry.integer().filter(|status| (100..600).contains(status));
        let Some(status) = status.and_then(|status| u16::try_from(status).ok()) else {
            return checks.wrong_type(entry, "an HTTP status from 100 to 599");
        };
        match self.changed.insert(status, class) {
            Some(before) if before == class => {
                let message = format!("status {status} stands twice in `{}`", entry.path());
                checks.refuse(Code::NoEffect, entry, &message, None);
            }
            Some(before) => {
                let message = format!("status {status} is in `{TABLE}.{before}` and in `{}`", entry.path());
                checks.refuse(
                    Code::Conflict,
                    entry,
                    &message,
                    Some("a status has one class: leave it out of one of the two"),
                );
            }
            None => {}
        }
    }
}
