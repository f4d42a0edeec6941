<?php
/*
Plugin Name: Larder: purge what changed
Description: Removes a post, and the pages that list it, from Larder's memory when it changes or gets a comment.
License: MIT OR Apache-2.0
*/
// Into wp-content/mu-plugins/. LARDER_ADDRESS is a constant of wp-config.php or a variable of the environment: where Larder
// takes purges from this machine (`purge = { from = ["127.0.0.1"] }`). Without it, http://127.0.0.1.

if (!defined('ABSPATH')) {
    exit;
}

// WordPress calls this for each change of a post, its terms or the number of its comments; often several times in one request.
add_action('clean_post_cache', function ($id, $post) {
    if ($post->post_status !== 'publish' && $post->post_status !== 'trash') {
        return;
    }
    if (wp_is_post_revision($id) || !is_post_type_viewable($post->post_type)) {
        return;
    }
    $urls = [get_permalink($id), get_post_comments_feed_link($id), home_url('/'), get_feed_link(), get_author_posts_url($post->post_author)];
    foreach (get_object_taxonomies($post->post_type) as $taxonomy) {
        $terms = get_the_terms($id, $taxonomy);
        foreach (is_array($terms) ? $terms : [] as $term) {
            $urls[] = get_term_link($term);
        }
    }
    larder_purge(array_filter($urls, 'is_string'));
}, 10, 2);

// Another theme, other menus or widgets change every page.
foreach (['switch_theme', 'customize_save_after', 'wp_update_nav_menu', 'update_option_sidebars_widgets'] as $change) {
    add_action($change, function () {
        larder_purge([home_url('/')], 'prefix');
    });
}

/** Purges these URLs, each once, at the end of the request. `prefix`: all that begin so. */
function larder_purge(array $more, string $kind = 'url')
{
    static $urls = null;
    if ($urls === null) {
        $urls = [];
        add_action('shutdown', function () use (&$urls) {
            $to = defined('LARDER_ADDRESS') ? LARDER_ADDRESS : (getenv('LARDER_ADDRESS') ?: 'http://127.0.0.1');
            foreach ($urls as $url => $kind) {
                $parts = wp_parse_url($url);
                $target = ($parts['path'] ?? '/') . (isset($parts['query']) ? '?' . $parts['query'] : '');
                $host = $parts['host'] . (isset($parts['port']) ? ':' . $parts['port'] : '');
                $headers = ['Host' => $host] + ($kind === 'prefix' ? ['Larder-Purge' => 'prefix'] : []);
                $answer = wp_remote_request($to . $target, ['method' => 'PURGE', 'timeout' => 2, 'headers' => $headers]);
                $status = is_wp_error($answer) ? $answer->get_error_message() : wp_remote_retrieve_response_code($answer);
                if ($status !== 200 && $status !== 404) {
                    error_log("larder: PURGE $url: $status");
                }
            }
        });
    }
    foreach ($more as $url) {
        $urls[$url] = $kind === 'prefix' ? $kind : ($urls[$url] ?? $kind);
    }
}
