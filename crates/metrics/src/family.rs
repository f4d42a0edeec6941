//! The tables of families of caches: peers that are asked, and those who ask.

use serde::{Deserialize, Serialize};

use crate::{
    Histogram, Snapshot,
    snapshot::{Row, figures},
    table::{Kind, Metric},
};

/// A family of caches.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(default)]
pub struct Family {
    /// Peers that are asked before the origin.
    pub peers: Vec<FamilyPeer>,
    /// Protocols by which others ask.
    pub asked: Vec<FamilyAsked>,
}

figures! {
    /// A peer.
    pub struct FamilyPeer {
        figures {
            /// 1: it is waited for and asked; 0: it does not answer.
            up: Gauge "larder_peer_up",
                "It is back. At 0: it is down, the network is, or it may not be asked: see its log.";
            /// Queries sent to the peer (ICP, HTCP).
            queries: Counter "larder_peer_queries", "More misses.";
            /// Answers that the peer has the page.
            hits: Counter "larder_peer_hits",
                "Good: each of these is a request the origin did not get.";
            /// Answers that the peer does not have the page.
            misses: Counter "larder_peer_misses", "New pages, or the peer keeps other ones.";
            /// Queries that were waited for without an answer.
            unanswered: Counter "larder_peer_unanswered",
                "It is down or slow, packets are lost, or `query_timeout` is too short.";
            /// Answers that the peer does not want to be asked.
            refusals: Counter "larder_peer_refusals",
                "It does not let this cache ask: its `icp_access` or `htcp_access` in Squid, \
                 `icp.from` or `htcp.from` in Larder; or secrets differ.";
            /// Requests sent to the peer by HTTP.
            fetches: Counter "larder_peer_fetches", "More misses go through this peer.";
            /// Requests that the peer should have had an answer for, and had none (504).
            false_hits: Counter "larder_peer_false_hits",
                "Pages leave it soon after it was asked, or vary by fields that ICP does not have: \
                 use `select = \"htcp\"`.";
            /// Requests that the peer failed to answer.
            failures: Counter "larder_peer_failures",
                "It is down or its own origin is; the next one was asked.";
            /// Purges sent to the peer (HTCP CLR).
            clears: Counter "larder_peer_clears", "More is purged.";
        }
        with {
            /// Its name.
            name: String;
            /// `parent` or `sibling`.
            role: String;
            /// The time of answers to queries.
            latency: Histogram;
        }
    }
}

impl Row for FamilyPeer {
    const LABELS: &'static [&'static str] = &["peer"];

    fn each(snapshot: &Snapshot, f: &mut dyn FnMut(&[&str], &Self)) {
        let peers = snapshot.family.iter().flat_map(|family| &family.peers);
        peers.for_each(|peer| f(&[&peer.name], peer));
    }
}

figures! {
    /// A protocol by which others ask.
    pub struct FamilyAsked {
        figures {
            /// Queries of other caches.
            queries: Counter "larder_asked_queries", "They have more misses.";
            /// Queries answered with a hit.
            hits: Counter "larder_asked_hits", "Good: this cache saves others their origin.";
            /// Purges received by CLR and carried out.
            clears: Counter "larder_asked_clears", "More is purged.";
            /// Messages of those who may not send them, or with a wrong signature.
            denied: Counter "larder_asked_denied",
                "Others than those of `from` ask, a purge is not allowed by `site.purge`, or \
                 secrets differ.";
            /// Datagrams that are no messages of the protocol, or of a kind that is not served.
            invalid: Counter "larder_asked_invalid", "Somebody sends something else to this port.";
        }
        with {
            /// `icp` or `htcp`.
            name: String;
        }
    }
}

impl Row for FamilyAsked {
    const LABELS: &'static [&'static str] = &["protocol"];

    fn each(snapshot: &Snapshot, f: &mut dyn FnMut(&[&str], &Self)) {
        let asked = snapshot.family.iter().flat_map(|family| &family.asked);
        asked.for_each(|asked| f(&[&asked.name], asked));
    }
}

/// Metrics of families with labels of their own.
pub(crate) const FAMILY: &[Metric] = &[Metric {
    name: "larder_peer_query_seconds",
    kind: Kind::Histogram,
    labels: &["peer"],
    help: "Time from a query to its answer.",
    rises: "The peer or the network is slow; at `query_timeout` the next one is asked.",
    read: |s, to| FamilyPeer::each(s, &mut |labels, peer| to.histogram(labels, &peer.latency)),
}];
