//! The table of certificates.

use crate::{
    Snapshot,
    snapshot::{Row, figures},
    table::{Kind, Metric},
};

figures! {
    /// A certificate, or a name that has none yet.
    pub struct Certificate {
        figures {
            /// Certificates that were ordered and came.
            orders: Counter "larder_certificate_orders",
                "Renewals; more than one in weeks: look at standard error.";
            /// Orders of a certificate that failed.
            failures: Counter "larder_certificate_failures",
                "`larder certificates` and standard error have the reason. The one in use stays.";
        }
        with {
            /// The first of its names.
            name: String;
            /// All of its names.
            names: Vec<String>;
            /// `file`, `acme`, or `self-signed`: there is none yet.
            source: String;
            /// The first moment of its validity; 0 for one that is self-signed.
            starts_ms: u64;
            /// The last moment of its validity; 0 for one that is self-signed.
            expires_ms: u64;
            /// The next order; null: none is planned.
            renews_ms: Option<u64>;
            /// The reason why the last order failed; null: it did not.
            reason: Option<String>;
        }
    }
}

impl Row for Certificate {
    const LABELS: &'static [&'static str] = &["certificate"];

    fn each(snapshot: &Snapshot, f: &mut dyn FnMut(&[&str], &Self)) {
        let rows = snapshot.certificates.iter();
        rows.for_each(|row| f(&[&row.name], row));
    }
}

/// Metrics of certificates that may be below zero.
pub(crate) const CERTIFICATES: &[Metric] = &[
    Metric {
        name: "larder_certificate_remaining_seconds",
        kind: Kind::Gauge,
        labels: &["certificate", "source"],
        help: "Time until the certificate ends; below 0: it has ended. 0 for one that is \
               self-signed.",
        rises: "It was renewed.",
        read: |s, to| {
            Certificate::each(s, &mut |_, row| {
                let now = if row.expires_ms == 0 { 0 } else { s.now_ms };
                let labels = &[&*row.name, &*row.source];
                to.float(labels, (row.expires_ms as f64 - now as f64) / 1000.0);
            });
        },
    },
    Metric {
        name: "larder_certificate_lifetime_seconds",
        kind: Kind::Gauge,
        labels: &["certificate", "source"],
        help: "The whole time for which the certificate is valid.",
        rises: "The authority issues for longer.",
        read: |s, to| {
            Certificate::each(s, &mut |_, row| {
                let labels = &[&*row.name, &*row.source];
                to.count(labels, row.expires_ms.saturating_sub(row.starts_ms) / 1000);
            });
        },
    },
];
