export const BUILD_LIMITS = {
  template_build: {
    acknowledged_findings_max: 200,
    draft_states_max: 50, // Berth's own
    log_bytes_max: 16 << 20, // Berth's own, as all that follow
    log_seconds: 30 * 24 * 3600,
    layers_max: 24, // of a version; further layers are merged into one
    layer_bytes_max: 64 * 2 ** 30,
    layer_entries_max: 2_000_000,
  },
  template_file: {
    files_page_max: 1000,
    path_bytes_max: 4096, // Berth's own, as all that follow
    position_bytes_max: 110, // of the position within a comparison, about one for each level; a deeper change is reported as one of its directory
    directories_per_page_max: 4000, // read for one page of a comparison
    retry_seconds: 60, // delay before a failed file list is built again
  },
  // Berth's own limits of one host.
  template_layer: {
    idle_seconds: 3600, // time since the last request for an image before it may be removed: its name may not be in the database yet
    step_unused_days: 14,
    steps_per_organization_max: 500, // on one host; the least recently used are dropped and run again
    removals_per_look_max: 100,
  },
  template_upload: {
    bytes_max: 5 * 2 ** 30,
    part_bytes_max: 64 << 20, // Berth's own, as all that follow
    part_bytes_min: 1 << 20, // except the last part; larger where the upload would exceed parts_max
    parts_max: 1000,
    per_organization_max: 50,
    organization_bytes_max: 20 * 2 ** 30, // declared sizes of all uploads together
    parts_at_once_max: 2, // of one upload; more answer 429
    parts_at_once_per_organization_max: 8,
    unfinished_hours: 24,
    unused_hours: 7 * 24,
    finish_minutes: 10, // after the last byte, before another process finishes an upload
  },
  // Berth's own.
  build: {
    recipe_bytes_max: 512 << 10,
    script_bytes_max: 64 << 10,
    steps_max: 100,
    dockerfile_instructions_max: 1000,
    dockerfile_variables_max: 1000,
    files_max: 500,
    hosts_max: 100,
    packages_max: 500,
    copy_sources_max: 100,
    step_seconds_default: 600,
    step_seconds_max: 3600,
    seconds_max: 3 * 3600, // time of one attempt
    attempts_max: 5,
    layers_max: 20, // of one version; further steps go into the last layer
    log_line_bytes_max: 16 << 10,
    step_output_bytes_max: 64 << 20, // a step with more output is killed
  },
} as const
