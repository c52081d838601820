/** Bounds of builds of templates, of the images that they make, and of the files in these. */
export const BUILD_LIMITS = {
  template_build: {
    acknowledged_findings_max: 200,
    draft_states_max: 50, // Berth's own
    log_bytes_max: 16 << 20, // Berth's own, as all that follow
    log_seconds: 30 * 24 * 3600,
    layers_max: 24, // of a version; one more is made of all of them
    layer_bytes_max: 64 * 2 ** 30,
    layer_entries_max: 2_000_000,
  },
  template_file: {
    files_page_max: 1000,
    path_bytes_max: 4096, // Berth's own, as all that follow
    position_bytes_max: 110, // of where a comparison is, about one for each level: what lies deeper is one change of its directory
    directories_per_page_max: 4000, // that are looked at for one page of a comparison
    retry_seconds: 60, // a list that could not be made is not tried again before
  },
  // Berth's own: images that builds have made, on a computer.
  template_layer: {
    idle_seconds: 3600, // after somebody has asked for it none is removed: until then its name is in the rows
    step_unused_days: 14,
    steps_per_organization_max: 500, // on one computer; those that were repeated longest ago are run again
    removals_per_look_max: 100,
  },
  template_upload: {
    bytes_max: 5 * 2 ** 30,
    part_bytes_max: 64 << 20, // Berth's own, as all that follow
    part_bytes_min: 1 << 20, // of every part but the last; more where an upload would have too many parts
    parts_max: 1000,
    per_organization_max: 50,
    organization_bytes_max: 20 * 2 ** 30, // of its uploads together, by the size that each was begun with
    parts_at_once_max: 2, // received at once, of one upload; more answer 429
    parts_at_once_per_organization_max: 8,
    unfinished_hours: 24,
    unused_hours: 7 * 24,
    finish_minutes: 10, // after its last byte, until an upload is finished that a process did not come to
  },
  // Berth's own: what a build of a template may be made of, and take.
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
    seconds_max: 3 * 3600, // of one attempt
    attempts_max: 5,
    layers_max: 20, // of one version: what a build would make more of goes into the last one
    log_line_bytes_max: 16 << 10,
    step_output_bytes_max: 64 << 20, // a step that says more is ended
  },
} as const
