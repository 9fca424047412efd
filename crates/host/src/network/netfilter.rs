//! Constants of netfilter messages, with their names from the kernel's headers.
//!
//! Contains only those that we send or read. They are part of the kernel's ABI, so they never change.

// `linux/netfilter/nfnetlink.h`, `linux/netfilter.h`: subsystems, batches, families, hooks, verdicts
pub(super) const NFNL_SUBSYS_CTNETLINK: u16 = 1;
pub(super) const NFNL_SUBSYS_ULOG: u16 = 4;
pub(super) const NFNL_SUBSYS_NFTABLES: u16 = 10;
pub(super) const NFNL_MSG_BATCH_BEGIN: u16 = 16;
pub(super) const NFNL_MSG_BATCH_END: u16 = 17;
pub(super) const NFPROTO_INET: u8 = 1;
pub(super) const NFPROTO_IPV4: u8 = 2;
pub(super) const NFPROTO_IPV6: u8 = 10;
pub(super) const NF_INET_LOCAL_IN: u32 = 1;
pub(super) const NF_INET_LOCAL_OUT: u32 = 3;
pub(super) const NF_DROP: i32 = 0;
pub(super) const NF_ACCEPT: i32 = 1;
pub(super) const NFT_RETURN: i32 = -5;

// `linux/netfilter/nf_tables.h`: messages
pub(super) const NFT_MSG_NEWTABLE: u16 = 0;
pub(super) const NFT_MSG_NEWCHAIN: u16 = 3;
pub(super) const NFT_MSG_NEWRULE: u16 = 6;
pub(super) const NFT_MSG_NEWSET: u16 = 9;
pub(super) const NFT_MSG_NEWSETELEM: u16 = 12;
pub(super) const NFT_MSG_DELSETELEM: u16 = 14;

// tables, chains and rules
pub(super) const NFTA_TABLE_NAME: u16 = 1;
pub(super) const NFTA_CHAIN_TABLE: u16 = 1;
pub(super) const NFTA_CHAIN_NAME: u16 = 3;
pub(super) const NFTA_CHAIN_HOOK: u16 = 4;
pub(super) const NFTA_CHAIN_POLICY: u16 = 5;
pub(super) const NFTA_CHAIN_TYPE: u16 = 7;
pub(super) const NFTA_HOOK_HOOKNUM: u16 = 1;
pub(super) const NFTA_HOOK_PRIORITY: u16 = 2;
pub(super) const NFTA_RULE_TABLE: u16 = 1;
pub(super) const NFTA_RULE_CHAIN: u16 = 2;
pub(super) const NFTA_RULE_EXPRESSIONS: u16 = 4;

// sets
pub(super) const NFTA_SET_TABLE: u16 = 1;
pub(super) const NFTA_SET_NAME: u16 = 2;
pub(super) const NFTA_SET_FLAGS: u16 = 3;
pub(super) const NFTA_SET_KEY_TYPE: u16 = 4;
pub(super) const NFTA_SET_KEY_LEN: u16 = 5;
pub(super) const NFTA_SET_POLICY: u16 = 8;
pub(super) const NFTA_SET_DESC: u16 = 9;
pub(super) const NFTA_SET_ID: u16 = 10;
pub(super) const NFTA_SET_DESC_SIZE: u16 = 1;
pub(super) const NFTA_SET_ELEM_LIST_TABLE: u16 = 1;
pub(super) const NFTA_SET_ELEM_LIST_SET: u16 = 2;
pub(super) const NFTA_SET_ELEM_LIST_ELEMENTS: u16 = 3;
pub(super) const NFTA_SET_ELEM_KEY: u16 = 1;
pub(super) const NFT_SET_POL_MEMORY: u32 = 1;

// parts of all expressions
pub(super) const NFTA_LIST_ELEM: u16 = 1;
pub(super) const NFTA_EXPR_NAME: u16 = 1;
pub(super) const NFTA_EXPR_DATA: u16 = 2;
pub(super) const NFTA_DATA_VALUE: u16 = 1;
pub(super) const NFTA_DATA_VERDICT: u16 = 2;
pub(super) const NFTA_VERDICT_CODE: u16 = 1;
pub(super) const NFT_REG_VERDICT: u32 = 0;
pub(super) const NFT_REG_1: u32 = 1;

// expressions
pub(super) const NFTA_META_DREG: u16 = 1;
pub(super) const NFTA_META_KEY: u16 = 2;
pub(super) const NFT_META_NFPROTO: u32 = 15;
pub(super) const NFT_META_L4PROTO: u32 = 16;
pub(super) const NFTA_LOOKUP_SET: u16 = 1;
pub(super) const NFTA_LOOKUP_SREG: u16 = 2;
pub(super) const NFTA_PAYLOAD_DREG: u16 = 1;
pub(super) const NFTA_PAYLOAD_BASE: u16 = 2;
pub(super) const NFTA_PAYLOAD_OFFSET: u16 = 3;
pub(super) const NFTA_PAYLOAD_LEN: u16 = 4;
pub(super) const NFT_PAYLOAD_NETWORK_HEADER: u32 = 1;
pub(super) const NFT_PAYLOAD_TRANSPORT_HEADER: u32 = 2;
pub(super) const NFTA_CMP_SREG: u16 = 1;
pub(super) const NFTA_CMP_OP: u16 = 2;
pub(super) const NFTA_CMP_DATA: u16 = 3;
pub(super) const NFT_CMP_EQ: u32 = 0;
pub(super) const NFT_CMP_NEQ: u32 = 1;
pub(super) const NFTA_IMMEDIATE_DREG: u16 = 1;
pub(super) const NFTA_IMMEDIATE_DATA: u16 = 2;
pub(super) const NFTA_REDIR_REG_PROTO_MIN: u16 = 1;
pub(super) const NFTA_REDIR_FLAGS: u16 = 3;
pub(super) const NF_NAT_RANGE_PROTO_SPECIFIED: u32 = 2;
pub(super) const NFTA_LIMIT_RATE: u16 = 1;
pub(super) const NFTA_LIMIT_UNIT: u16 = 2;
pub(super) const NFTA_LIMIT_BURST: u16 = 3;
pub(super) const NFTA_LIMIT_TYPE: u16 = 4;
pub(super) const NFTA_LIMIT_FLAGS: u16 = 5;
pub(super) const NFT_LIMIT_PKTS: u32 = 0;
pub(super) const NFTA_LOG_GROUP: u16 = 1;
pub(super) const NFTA_LOG_SNAPLEN: u16 = 3;
pub(super) const NFTA_LOG_QTHRESHOLD: u16 = 4;
pub(super) const NFTA_CT_DREG: u16 = 1;
pub(super) const NFTA_CT_KEY: u16 = 2;
pub(super) const NFT_CT_STATE: u32 = 0;
pub(super) const CT_STATE_BIT_ESTABLISHED: u32 = 2;
pub(super) const CT_STATE_BIT_RELATED: u32 = 4;
pub(super) const NFTA_BITWISE_SREG: u16 = 1;
pub(super) const NFTA_BITWISE_DREG: u16 = 2;
pub(super) const NFTA_BITWISE_LEN: u16 = 3;
pub(super) const NFTA_BITWISE_MASK: u16 = 4;
pub(super) const NFTA_BITWISE_XOR: u16 = 5;

// `linux/netfilter/nfnetlink_conntrack.h`
pub(super) const IPCTNL_MSG_CT_NEW: u16 = 0;
pub(super) const IPCTNL_MSG_CT_GET: u16 = 1;
pub(super) const CTA_TUPLE_ORIG: u16 = 1;
pub(super) const CTA_TUPLE_REPLY: u16 = 2;
pub(super) const CTA_ID: u16 = 12;
pub(super) const CTA_TUPLE_IP: u16 = 1;
pub(super) const CTA_TUPLE_PROTO: u16 = 2;
pub(super) const CTA_IP_V4_SRC: u16 = 1;
pub(super) const CTA_IP_V4_DST: u16 = 2;
pub(super) const CTA_IP_V6_SRC: u16 = 3;
pub(super) const CTA_IP_V6_DST: u16 = 4;
pub(super) const CTA_PROTO_NUM: u16 = 1;
pub(super) const CTA_PROTO_SRC_PORT: u16 = 2;
pub(super) const CTA_PROTO_DST_PORT: u16 = 3;

// `linux/netfilter/nfnetlink_log.h`
pub(super) const NFULNL_MSG_CONFIG: u16 = 1;
pub(super) const NFULA_CFG_CMD: u16 = 1;
pub(super) const NFULA_CFG_MODE: u16 = 2;
pub(super) const NFULA_CFG_QTHRESH: u16 = 5;
pub(super) const NFULNL_CFG_CMD_BIND: u8 = 1;
pub(super) const NFULNL_COPY_PACKET: u8 = 2;
