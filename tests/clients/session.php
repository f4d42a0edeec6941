<?php
// Counts a visitor's requests in a session.
session_start();
$_SESSION['visits'] = ($_SESSION['visits'] ?? 0) + 1;
$_SESSION['filler'] = str_repeat('x', 10000);
echo 'visits ', $_SESSION['visits'], ' ', strlen($_SESSION['filler']), "\n";
