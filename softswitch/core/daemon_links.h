/* Links and their queueing disciplines: owns the rtnetlink socket that says when an interface goes down, comes up or
 * is deleted, and when somebody (`tc`) gives it another discipline. */
#ifndef WEFT_DAEMON_LINKS_H
#define WEFT_DAEMON_LINKS_H

enum wd_news { WD_NEWS_LINK = 1, WD_NEWS_QDISC = 2 };
enum { WD_QDISC_NAME = 16 }; /* the kernel's IFNAMSIZ */

/* A non-blocking socket that is readable when any link of this namespace changed; -errno. */
int wd_links_open(void);
/* Reads away what is there; which kinds of news (enum wd_news) there were. The news itself is asked of the interface, so
 * that a lost message costs nothing. */
int wd_links_drain(int fd);

/* What an interface's disciplines do to frames. */
enum wd_holding {
    WD_HOLDS_NOTHING = 0, /* none: frames are out when they are sent */
    WD_HOLDS_SOME = 1,    /* may keep frames back, for whatever reason: a busy card, a delay (netem) */
    WD_HOLDS_BY_RATE = 2, /* lets frames go at a rate, and nothing delays them besides */
};
/* As enum wd_holding, and the name of the root discipline ("noqueue", "htb", ...); -errno. Asks by a socket of its own. */
int wd_links_holding(int ifindex, char name[WD_QDISC_NAME]);

#endif
