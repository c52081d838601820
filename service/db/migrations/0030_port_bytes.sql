-- Bytes of a workspace are counted by their reason. rx_bytes and tx_bytes are what the guest exchanged with the world outside; these are
-- what visitors of its ports did, over the host.
alter table usage_samples
  add column port_received_bytes bigint not null default 0 check (port_received_bytes >= 0),
  add column port_sent_bytes bigint not null default 0 check (port_sent_bytes >= 0);
