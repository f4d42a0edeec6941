//! Commands of scripts, as Redis 7.0 describes them.

use super::commands;

commands! { COMMANDS
    "eval" Eval -3 [NOSCRIPT STALE SKIP_MONITOR NO_MANDATORY_KEYS MOVABLEKEYS] [SLOW SCRIPTING] [0 0 0]
        ["We cannot tell how the keys will be used so we assume the worst, RW and UPDATE"
        [RW ACCESS UPDATE] 2 127 0] [];
    "evalsha" Evalsha -3 [NOSCRIPT STALE SKIP_MONITOR NO_MANDATORY_KEYS MOVABLEKEYS] [SLOW SCRIPTING]
        [0 0 0] ["" [RW ACCESS UPDATE] 2 127 0] [];
    "eval_ro" EvalRo -3 [READONLY NOSCRIPT STALE SKIP_MONITOR NO_MANDATORY_KEYS MOVABLEKEYS]
        [SLOW SCRIPTING] [0 0 0]
        ["We cannot tell how the keys will be used so we assume the worst, RO and ACCESS"
        [RO ACCESS] 2 127 0] [];
    "evalsha_ro" EvalshaRo -3 [READONLY NOSCRIPT STALE SKIP_MONITOR NO_MANDATORY_KEYS MOVABLEKEYS]
        [SLOW SCRIPTING] [0 0 0] ["" [RO ACCESS] 2 127 0] [];
    "fcall" Fcall -3 [NOSCRIPT STALE SKIP_MONITOR NO_MANDATORY_KEYS MOVABLEKEYS] [SLOW SCRIPTING]
        [0 0 0]
        ["We cannot tell how the keys will be used so we assume the worst, RW and UPDATE"
        [RW ACCESS UPDATE] 2 127 0] [];
    "fcall_ro" FcallRo -3 [READONLY NOSCRIPT STALE SKIP_MONITOR NO_MANDATORY_KEYS MOVABLEKEYS]
        [SLOW SCRIPTING] [0 0 0]
        ["We cannot tell how the keys will be used so we assume the worst, RO and ACCESS"
        [RO ACCESS] 2 127 0] [];
    "function" Function -2 [] [SLOW] [0 0 0] [] [] => FUNCTION;
    "script" Script -2 [] [SLOW] [0 0 0] [] [] => SCRIPT;
}

commands! { FUNCTION
    "function|delete" FunctionDelete 3 [WRITE NOSCRIPT] [WRITE SLOW SCRIPTING] [0 0 0] []
        ["request_policy:all_shards" "response_policy:all_succeeded"];
    "function|dump" FunctionDump 2 [NOSCRIPT] [SLOW SCRIPTING] [0 0 0] [] [];
    "function|flush" FunctionFlush -2 [WRITE NOSCRIPT] [WRITE SLOW SCRIPTING] [0 0 0] []
        ["request_policy:all_shards" "response_policy:all_succeeded"];
    "function|help" FunctionHelp 2 [LOADING STALE] [SLOW SCRIPTING] [0 0 0] [] [];
    "function|kill" FunctionKill 2 [NOSCRIPT ALLOW_BUSY] [SLOW SCRIPTING] [0 0 0] []
        ["request_policy:all_shards" "response_policy:one_succeeded"];
    "function|list" FunctionList -2 [NOSCRIPT] [SLOW SCRIPTING] [0 0 0] []
        ["nondeterministic_output_order"];
    "function|load" FunctionLoad -3 [WRITE DENYOOM NOSCRIPT] [WRITE SLOW SCRIPTING] [0 0 0] []
        ["request_policy:all_shards" "response_policy:all_succeeded"];
    "function|restore" FunctionRestore -3 [WRITE DENYOOM NOSCRIPT] [WRITE SLOW SCRIPTING] [0 0 0] []
        ["request_policy:all_shards" "response_policy:all_succeeded"];
    "function|stats" FunctionStats 2 [NOSCRIPT ALLOW_BUSY] [SLOW SCRIPTING] [0 0 0] []
        ["nondeterministic_output" "request_policy:all_shards" "response_policy:special"];
}

commands! { SCRIPT
    "script|debug" ScriptDebug 3 [NOSCRIPT] [SLOW SCRIPTING] [0 0 0] [] [];
    "script|exists" ScriptExists -3 [NOSCRIPT] [SLOW SCRIPTING] [0 0 0] []
        ["request_policy:all_shards" "response_policy:agg_logical_and"];
    "script|flush" ScriptFlush -2 [NOSCRIPT] [SLOW SCRIPTING] [0 0 0] []
        ["request_policy:all_nodes" "response_policy:all_succeeded"];
    "script|help" ScriptHelp 2 [LOADING STALE] [SLOW SCRIPTING] [0 0 0] [] [];
    "script|kill" ScriptKill 2 [NOSCRIPT ALLOW_BUSY] [SLOW SCRIPTING] [0 0 0] []
        ["request_policy:all_shards" "response_policy:one_succeeded"];
    "script|load" ScriptLoad 3 [NOSCRIPT STALE] [SLOW SCRIPTING] [0 0 0] []
        ["request_policy:all_nodes" "response_policy:all_succeeded"];
}
