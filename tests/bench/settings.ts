/** Of every service that is measured. */
export const BENCH_SETTINGS = { pool_image_gib: 16, slots: 2, shells: 2 }
