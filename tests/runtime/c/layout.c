/* Prints the offset of each field and the size of each structure that loader.c shares with native code. */
#include "loader.c"

#define FIELD(type, field) printf(#type " " #field " %zu\n", offsetof(type, field))
#define SIZE(type) printf(#type " - %zu\n", sizeof(type))

int main(void) {
    FIELD(jg_host, abi_version); FIELD(jg_host, alloc); FIELD(jg_host, free); FIELD(jg_host, parallel_for);
    FIELD(jg_host, poll); FIELD(jg_host, syscall); FIELD(jg_host, pool); FIELD(jg_host, callback);
    FIELD(jg_host, driver); FIELD(jg_host, print); FIELD(jg_host, reserved); SIZE(jg_host);
    FIELD(jg_error_record, code); FIELD(jg_error_record, check_id); FIELD(jg_error_record, index);
    FIELD(jg_error_record, bound); FIELD(jg_error_record, order); FIELD(jg_error_record, lock);
    FIELD(jg_error_record, pad); SIZE(jg_error_record);
    FIELD(jg_block, next); FIELD(jg_block, base); FIELD(jg_block, bytes); SIZE(jg_block);
    FIELD(jg_call, arena); FIELD(jg_call, arena_bytes); FIELD(jg_call, blocks); FIELD(jg_call, stream);
    FIELD(jg_call, last_poll); FIELD(jg_call, error); FIELD(jg_call, print_site);
    FIELD(jg_call, print_operands); FIELD(jg_call, threads); FIELD(jg_call, reserved); SIZE(jg_call);
    FIELD(jg_pool, busy); FIELD(jg_pool, stop); FIELD(jg_pool, workers); FIELD(jg_pool, pad0);
    FIELD(jg_pool, syscall); FIELD(jg_pool, scratch); FIELD(jg_pool, hired); FIELD(jg_pool, patience);
    FIELD(jg_pool, pad1); FIELD(jg_pool, epoch); FIELD(jg_pool, sleepers); FIELD(jg_pool, unwoken);
    FIELD(jg_pool, pad2); FIELD(jg_pool, spin); FIELD(jg_pool, pad3); FIELD(jg_pool, function);
    FIELD(jg_pool, context); FIELD(jg_pool, chunks); FIELD(jg_pool, parts); FIELD(jg_pool, open);
    FIELD(jg_pool, pad4); FIELD(jg_pool, next); FIELD(jg_pool, pad5); FIELD(jg_pool, entered);
    FIELD(jg_pool, waiting); FIELD(jg_pool, seats); FIELD(jg_pool, pad6); FIELD(jg_pool, failure);
    FIELD(jg_pool, pad7); FIELD(jg_pool, ended); FIELD(jg_pool, gap); FIELD(jg_pool, soon);
    FIELD(jg_pool, wake_cost); FIELD(jg_pool, pad8); SIZE(jg_pool);
    return 0;
}
