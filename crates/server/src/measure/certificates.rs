//! Figures of the certificates of HTTPS.

use std::collections::BTreeMap;

use larder_metrics::Certificate as Row;

use crate::{
    acme::Acme,
    settings::{Certificate, CertificateSource, HostPattern, HttpsSettings},
};

/// A row for each certificate, and one for each name that has none yet. Of certificates with the
/// same first name, the one that ends first stands for all.
pub(super) fn rows(https: &HttpsSettings, acme: &Acme) -> Vec<Row> {
    let mut rows: BTreeMap<String, Row> = BTreeMap::new();
    let mut add = |row: Row| {
        let held = rows.get(&row.name);
        if held.is_none_or(|held| row.expires_ms < held.expires_ms) {
            rows.insert(row.name.clone(), row);
        }
    };
    for certificate in https.all() {
        if certificate.source == CertificateSource::SelfSigned {
            let names = certificate.names.iter().map(HostPattern::to_string);
            names.for_each(|name| add(row(vec![name], certificate)));
        } else {
            add(row(certificate.names.iter().map(HostPattern::to_string).collect(), certificate));
        }
    }
    for name in https.acme.iter().flat_map(|settings| &settings.names) {
        let Some(row) = rows.get_mut(name) else { continue };
        let state = acme.state(name);
        (row.orders, row.failures, row.reason) = (state.orders, state.failures, state.reason);
        row.renews_ms = state.renew_at.map(milliseconds);
    }
    rows.into_values().collect()
}

fn row(names: Vec<String>, certificate: &Certificate) -> Row {
    let made_here = certificate.source == CertificateSource::SelfSigned;
    let time = |seconds| if made_here { 0 } else { milliseconds(seconds) };
    Row {
        name: names.first().cloned().unwrap_or_else(|| "none".to_owned()),
        names,
        source: certificate.source.as_str().to_owned(),
        starts_ms: time(certificate.not_before),
        expires_ms: time(certificate.not_after),
        ..Row::default()
    }
}

fn milliseconds(seconds: i64) -> u64 {
    u64::try_from(seconds).unwrap_or(0).saturating_mul(1000)
}
